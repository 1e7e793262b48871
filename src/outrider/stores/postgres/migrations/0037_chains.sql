-- Tampering shows: each event of a run is chained to the one before, and so is the audit log.

-- Rows from before have no hash: they are before the chain.
ALTER TABLE campaign_runs ADD COLUMN chain_head bytea;
ALTER TABLE run_events ADD COLUMN chain_hash bytea;

-- The chain's next hashes, in the order of a window: domain/event_chain.py says the same in Python.
CREATE FUNCTION outrider_next_hash(state bytea, head bytea, seq bigint, content bytea)
  RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sha256(coalesce(state, head, decode(repeat('00', 32), 'hex')) || int8send(seq) || content);
CREATE AGGREGATE outrider_chain (head bytea, seq bigint, content bytea) (
  SFUNC = outrider_next_hash, STYPE = bytea
);

-- What the writer of an entry said its content hashes to. The database's own entries have none.
ALTER TABLE campaign_audit_log ADD COLUMN content_hash bytea;

-- The audit log's chain is a table of its own, written a moment later: if every transaction with an
-- entry had to lock the workspace's head, they would wait for one another.
CREATE TABLE audit_chain (
  workspace_id uuid NOT NULL,
  seq bigint NOT NULL CHECK (seq > 0),
  id uuid NOT NULL UNIQUE,
  hash bytea NOT NULL,
  PRIMARY KEY (workspace_id, seq)
);
CREATE TRIGGER audit_chain_append_only BEFORE UPDATE OR DELETE ON audit_chain
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('the chain of the audit log is append-only');
CREATE TRIGGER audit_chain_not_truncated BEFORE TRUNCATE ON audit_chain
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('the chain of the audit log is never truncated');
CREATE TABLE audit_heads (
  workspace_id uuid PRIMARY KEY,
  seq bigint NOT NULL DEFAULT 0,
  hash bytea
);
CREATE TABLE unchained_audit (
  id uuid PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE FUNCTION outrider_note_unchained_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO unchained_audit SELECT id FROM added;
  RETURN NULL;
END
$$;
CREATE TRIGGER campaign_audit_log_unchained AFTER INSERT ON campaign_audit_log
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_note_unchained_audit();

-- Entries from before are chained too: from now on, what they say cannot be changed unseen.
INSERT INTO unchained_audit SELECT id FROM campaign_audit_log;

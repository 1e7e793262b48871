-- Every table that this changes, in the order in which servers come to them, which may be at work.
LOCK TABLE channel_outbox, campaign_runs IN ACCESS EXCLUSIVE MODE;

-- Erasure: what identifies a person is destroyed, what happened stays, and every seal stays valid.

-- `identity` has the addresses of the person while the erasure is under way, and nothing afterwards.
CREATE TABLE erasures (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  actor text NOT NULL,
  identity text,
  begun_at timestamptz NOT NULL,
  completed_at timestamptz,
  CHECK ((identity IS NULL) = (completed_at IS NOT NULL))
);
CREATE INDEX erasures_under_way ON erasures (workspace_id, id) WHERE completed_at IS NULL;

-- Rows that are without what identified somebody. `hashes` are those under which they were sealed, where
-- their run was; `run_id` is that of a ledger row.
CREATE TABLE erased_rows (
  id uuid PRIMARY KEY,
  erasure_id uuid NOT NULL,
  run_id uuid,
  hashes text
);
CREATE INDEX erased_rows_of_erasure ON erased_rows (erasure_id, id);

-- Campaigns whose files may still name the person.
CREATE TABLE erasure_files (
  erasure_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  PRIMARY KEY (erasure_id, campaign_id)
);

-- Opt-outs of people whose address is not known any more, by its salted hash.
CREATE TABLE erasure_salts (
  workspace_id uuid PRIMARY KEY,
  salt bytea NOT NULL
);
CREATE TABLE erased_suppressions (
  workspace_id uuid NOT NULL,
  channel text NOT NULL,
  hash bytea NOT NULL,
  topic text NOT NULL,
  source text NOT NULL,
  includes_transactional boolean NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, channel, hash, topic, source)
);
CREATE FUNCTION outrider_address_hash(salt bytea, address text) RETURNS bytea
  LANGUAGE sql IMMUTABLE RETURN sha256(salt || convert_to(lower(address), 'UTF8'));

-- Grows with each erasure in the run: a seal that was begun before is begun again.
ALTER TABLE campaign_runs ADD COLUMN erasures integer NOT NULL DEFAULT 0;

CREATE INDEX digests_by_address ON digests (workspace_id, lower(address));
CREATE INDEX message_events_by_item ON message_events (outbox_id);

-- The database lets a row be erased only if it was put on this list in the same transaction, which
-- clears it; and everything but what identifies somebody stays as it was.
CREATE TABLE erasing_rows (
  id uuid PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The column that is looked for on the list, what is said where it is not there, and what may change.
CREATE FUNCTION outrider_erase_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  key uuid;
  private text[] := string_to_array(TG_ARGV[2], ' ');
BEGIN
  EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) INTO key USING OLD;
  IF NOT EXISTS (SELECT 1 FROM erasing_rows e WHERE e.id = key)
     OR to_jsonb(OLD) - private IS DISTINCT FROM to_jsonb(NEW) - private THEN
    RAISE EXCEPTION '%', TG_ARGV[1] USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END
$$;
DROP TRIGGER channel_outbox_terminal_is_final ON channel_outbox;
CREATE TRIGGER channel_outbox_terminal_is_final BEFORE UPDATE ON channel_outbox
  FOR EACH ROW WHEN (OLD.status <> 'queued' AND NOT (
    (OLD.status = 'failed' OR (OLD.status = 'skipped' AND OLD.reason IS NOT DISTINCT FROM 'job_dead'))
    AND NEW.status = 'queued' AND OLD.run_id IS NOT NULL
    AND coalesce(NEW.step_attempt, 1) > coalesce(OLD.step_attempt, 1)
    AND NEW.idempotency_key = OLD.idempotency_key AND NEW.recipient_id = OLD.recipient_id
    AND NEW.recipient_address IS NOT DISTINCT FROM OLD.recipient_address))
  EXECUTE FUNCTION outrider_erase_only('id', 'a terminal ledger row never changes',
    'recipient_id recipient_address subject payload template reason error');
DROP TRIGGER attempt_history_append_only ON attempt_history;
CREATE TRIGGER attempt_history_append_only BEFORE UPDATE ON attempt_history
  FOR EACH ROW EXECUTE FUNCTION outrider_erase_only('outbox_id', 'a closed attempt never changes',
    'reason error');
DROP TRIGGER receipts_append_only ON receipts;
CREATE TRIGGER receipts_append_only BEFORE UPDATE ON receipts
  FOR EACH ROW EXECUTE FUNCTION outrider_erase_only('id', 'a receipt never changes',
    'reason sender text');
DROP TRIGGER domain_events_immutable ON domain_events;
CREATE TRIGGER domain_events_immutable BEFORE UPDATE ON domain_events
  FOR EACH ROW WHEN (OLD.fingerprint IS DISTINCT FROM NEW.fingerprint
                     OR OLD.event_id IS DISTINCT FROM NEW.event_id
                     OR OLD.trigger_name IS DISTINCT FROM NEW.trigger_name
                     OR OLD.subject::text IS DISTINCT FROM NEW.subject::text
                     OR OLD.variables::text IS DISTINCT FROM NEW.variables::text)
  EXECUTE FUNCTION outrider_erase_only('id', 'a domain event never changes',
    'subject variables routes error status route_at updated_at');

-- Tampering shows: each event of a run is chained to the one before, and so is the audit log.

-- Rows from before have no hash: they are before the chain.
ALTER TABLE campaign_runs ADD COLUMN chain_head blob;
ALTER TABLE run_events ADD COLUMN chain_hash blob;

-- What the writer of an entry said its content hashes to. The database's own entries have none.
ALTER TABLE campaign_audit_log ADD COLUMN content_hash blob;

-- The audit log's chain is a table of its own, written a moment later: if every transaction with an
-- entry had to lock the workspace's head, they would wait for one another.
CREATE TABLE audit_chain (
  workspace_id text NOT NULL,
  seq integer NOT NULL CHECK (seq > 0),
  id text NOT NULL UNIQUE,
  hash blob NOT NULL,
  PRIMARY KEY (workspace_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER audit_chain_unchanged BEFORE UPDATE ON audit_chain
  BEGIN SELECT RAISE(ABORT, 'the chain of the audit log is append-only'); END;
CREATE TRIGGER audit_chain_kept BEFORE DELETE ON audit_chain
  BEGIN SELECT RAISE(ABORT, 'the chain of the audit log is append-only'); END;
CREATE TRIGGER audit_chain_no_replace BEFORE INSERT ON audit_chain
  WHEN EXISTS (SELECT 1 FROM audit_chain c
                WHERE c.workspace_id = NEW.workspace_id AND c.seq = NEW.seq)
    OR EXISTS (SELECT 1 FROM audit_chain c WHERE c.id = NEW.id)
  BEGIN SELECT RAISE(ABORT, 'the chain of the audit log is append-only'); END;
CREATE TABLE audit_heads (
  workspace_id text PRIMARY KEY,
  seq integer NOT NULL DEFAULT 0,
  hash blob
) STRICT, WITHOUT ROWID;
CREATE TABLE unchained_audit (
  id text PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER campaign_audit_log_unchained AFTER INSERT ON campaign_audit_log
  BEGIN INSERT INTO unchained_audit VALUES (NEW.id); END;

-- Entries from before are chained too: from now on, what they say cannot be changed unseen.
INSERT INTO unchained_audit SELECT id FROM campaign_audit_log;

-- Erasure: what identifies a person is destroyed, what happened stays, and every seal stays valid.

-- `identity` has the addresses of the person while the erasure is under way, and nothing afterwards.
CREATE TABLE erasures (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  actor text NOT NULL,
  identity text,
  begun_at text NOT NULL,
  completed_at text,
  CHECK ((identity IS NULL) = (completed_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX erasures_under_way ON erasures (workspace_id, id) WHERE completed_at IS NULL;

-- Rows that are without what identified somebody. `hashes` are those under which they were sealed, where
-- their run was; `run_id` is that of a ledger row.
CREATE TABLE erased_rows (
  id text PRIMARY KEY,
  erasure_id text NOT NULL,
  run_id text,
  hashes text
) STRICT, WITHOUT ROWID;
CREATE INDEX erased_rows_of_erasure ON erased_rows (erasure_id, id);

-- Campaigns whose files may still name the person.
CREATE TABLE erasure_files (
  erasure_id text NOT NULL,
  campaign_id text NOT NULL,
  PRIMARY KEY (erasure_id, campaign_id)
) STRICT, WITHOUT ROWID;

-- Opt-outs of people whose address is not known any more, by its salted hash.
CREATE TABLE erasure_salts (
  workspace_id text PRIMARY KEY,
  salt blob NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE erased_suppressions (
  workspace_id text NOT NULL,
  channel text NOT NULL,
  hash blob NOT NULL,
  topic text NOT NULL,
  source text NOT NULL,
  includes_transactional integer NOT NULL,
  created_at text NOT NULL,
  PRIMARY KEY (workspace_id, channel, hash, topic, source)
) STRICT, WITHOUT ROWID;

-- Grows with each erasure in the run: a seal that was begun before is begun again.
ALTER TABLE campaign_runs ADD COLUMN erasures integer NOT NULL DEFAULT 0;

CREATE INDEX digests_by_address ON digests (workspace_id, lower(address));
CREATE INDEX message_events_by_item ON message_events (outbox_id);

-- The database lets a row be erased only if it was put on this list in the same transaction, which
-- clears it; and everything but what identifies somebody stays as it was.
CREATE TABLE erasing_rows (
  id text PRIMARY KEY
) STRICT, WITHOUT ROWID;

DROP TRIGGER channel_outbox_terminal_is_final;
CREATE TRIGGER channel_outbox_terminal_is_final BEFORE UPDATE ON channel_outbox
  WHEN OLD.status <> 'queued' AND NOT (
    (OLD.status = 'failed' OR (OLD.status = 'skipped' AND OLD.reason IS 'job_dead'))
    AND NEW.status = 'queued' AND OLD.run_id IS NOT NULL
    AND coalesce(NEW.step_attempt, 1) > coalesce(OLD.step_attempt, 1)
    AND NEW.idempotency_key = OLD.idempotency_key AND NEW.recipient_id = OLD.recipient_id
    AND NEW.recipient_address IS OLD.recipient_address)
   AND NOT (
    EXISTS (SELECT 1 FROM erasing_rows e WHERE e.id = OLD.id)
    AND NEW.status = OLD.status AND NEW.intent_status IS OLD.intent_status
    AND NEW.attempts = OLD.attempts AND NEW.attempt_fence IS OLD.attempt_fence
    AND NEW.attempt_opened_at IS OLD.attempt_opened_at
    AND NEW.attempt_closed_at IS OLD.attempt_closed_at AND NEW.progress IS OLD.progress
    AND NEW.provider_message_id IS OLD.provider_message_id AND NEW.updated_at = OLD.updated_at
    AND NEW.run_id IS OLD.run_id AND NEW.job_id IS OLD.job_id)
  BEGIN SELECT RAISE(ABORT, 'a terminal ledger row never changes'); END;
DROP TRIGGER attempt_history_no_update;
CREATE TRIGGER attempt_history_no_update BEFORE UPDATE ON attempt_history
  WHEN NOT EXISTS (SELECT 1 FROM erasing_rows e WHERE e.id = OLD.outbox_id)
    OR NEW.outcome <> OLD.outcome OR NEW.opened_at <> OLD.opened_at
    OR NEW.closed_at <> OLD.closed_at OR NEW.progress <> OLD.progress
  BEGIN SELECT RAISE(ABORT, 'a closed attempt never changes'); END;
DROP TRIGGER receipts_no_update;
CREATE TRIGGER receipts_no_update BEFORE UPDATE ON receipts
  WHEN NOT EXISTS (SELECT 1 FROM erasing_rows e WHERE e.id = OLD.id)
    OR NEW.event <> OLD.event OR NEW.receipt_id <> OLD.receipt_id
    OR NEW.permanent <> OLD.permanent OR NEW.received_at <> OLD.received_at
  BEGIN SELECT RAISE(ABORT, 'a receipt never changes'); END;
DROP TRIGGER domain_events_immutable;
CREATE TRIGGER domain_events_immutable BEFORE UPDATE ON domain_events
  WHEN (OLD.fingerprint IS NOT NEW.fingerprint OR OLD.event_id IS NOT NEW.event_id
        OR OLD.trigger_name IS NOT NEW.trigger_name)
    OR ((OLD.subject IS NOT NEW.subject OR OLD.variables IS NOT NEW.variables)
        AND NOT EXISTS (SELECT 1 FROM erasing_rows e WHERE e.id = OLD.id))
  BEGIN SELECT RAISE(ABORT, 'a domain event never changes'); END;

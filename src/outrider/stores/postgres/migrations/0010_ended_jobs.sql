-- How a job ended. `unended` of its items had no ending when it did: they were in doubt when their run
-- was stopped, or could never be reserved. Such a job is counted by its rows, others by their counts.
ALTER TABLE job_queue ADD COLUMN unended integer NOT NULL DEFAULT 0 CHECK (unended >= 0);

-- A job whose items all failed has failed; what ended before stays as it was written.
DO $$
DECLARE old text;
BEGIN
  FOR old IN SELECT conname FROM pg_constraint
   WHERE conrelid = 'job_queue'::regclass AND contype = 'c'
     AND (pg_get_constraintdef(oid) LIKE '%outcome IS NOT NULL%'
          OR pg_get_constraintdef(oid) LIKE '%item_count = %')
  LOOP
    EXECUTE format('ALTER TABLE job_queue DROP CONSTRAINT %I', old);
  END LOOP;
END
$$;
ALTER TABLE job_queue
  ADD CONSTRAINT job_queue_ended_has_outcome CHECK
    (CASE WHEN status IN ('completed', 'dead') THEN outcome IS NOT NULL
          WHEN status = 'failed' THEN outcome IS NULL OR (outcome = 'failed' AND run_at IS NULL)
          ELSE outcome IS NULL END),
  ADD CONSTRAINT job_queue_adds_up CHECK
    (outcome IS NULL OR item_count = sent + failed + skipped + unended);
DROP INDEX job_queue_unfinished;
CREATE INDEX job_queue_unfinished ON job_queue (run_id) WHERE outcome IS NULL OR unended > 0;

-- The ledger with its keys as people and providers write them.
CREATE VIEW ledger_by_key AS
  SELECT encode(idempotency_key, 'hex') AS idempotency_key, id, tenant_id, workspace_id, origin,
         run_id, job_id, channel, provider, submission_target, recipient_id, recipient_address,
         asset_id, asset_version, subject, status, skipped, intent_status, exhausted_reason, reason,
         error, attempts, provider_message_id, next_attempt_at, doubted_at, created_at, updated_at
    FROM channel_outbox;

-- Registries that were put in force through a server, which all others follow. The hashes are of the
-- contracts; `replaced_sha256` is of what was in force there before.
CREATE TABLE registry_revisions (
  revision integer PRIMARY KEY,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  replaced_sha256 text,
  document text NOT NULL,
  actor text NOT NULL,
  created_at timestamptz NOT NULL
);

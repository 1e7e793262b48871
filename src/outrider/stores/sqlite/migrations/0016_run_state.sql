-- How often the plan of a run begins a step anew when its job is dead, and how long it waits first.
ALTER TABLE job_queue
  ADD COLUMN logical_attempts_max integer NOT NULL DEFAULT 1 CHECK (logical_attempts_max > 0);
ALTER TABLE job_queue
  ADD COLUMN retry_delay_seconds integer NOT NULL DEFAULT 0 CHECK (retry_delay_seconds >= 0);

-- Under which logical attempt of its step an item stands, where that is not the first, and how many
-- attempts it had made before that one: its contract counts from there. A row that failed, or that its
-- job did not come to, may begin anew with its step and in no other way; to whom it goes and under which
-- key stays the same.
ALTER TABLE channel_outbox ADD COLUMN step_attempt integer;
ALTER TABLE channel_outbox ADD COLUMN attempts_before integer;
DROP TRIGGER channel_outbox_terminal_is_final;
CREATE TRIGGER channel_outbox_terminal_is_final BEFORE UPDATE ON channel_outbox
  WHEN OLD.status <> 'queued' AND NOT (
    (OLD.status = 'failed' OR (OLD.status = 'skipped' AND OLD.reason IS 'job_dead'))
    AND NEW.status = 'queued' AND OLD.run_id IS NOT NULL
    AND coalesce(NEW.step_attempt, 1) > coalesce(OLD.step_attempt, 1)
    AND NEW.idempotency_key = OLD.idempotency_key AND NEW.recipient_id = OLD.recipient_id
    AND NEW.recipient_address IS OLD.recipient_address)
  BEGIN SELECT RAISE(ABORT, 'a terminal ledger row never changes'); END;

-- Refused signals are recorded one by one at a certain rate; how many since when, and how many more
-- there were, which are recorded together.
ALTER TABLE campaign_runs ADD COLUMN refusals_began_at text;
ALTER TABLE campaign_runs ADD COLUMN refusals_recorded integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN refusals_unrecorded integer NOT NULL DEFAULT 0;
CREATE INDEX campaign_runs_unrecorded_refusals ON campaign_runs (id)
  WHERE refusals_unrecorded > 0;

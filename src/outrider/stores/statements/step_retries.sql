-- Restarting a step: its next logical attempt, over those of its items that did not succeed.

-- name: lock_step
SELECT status, outcome, cancelled, fence, contract_id
  FROM job_queue WHERE id = :job_id AND run_id = :run_id FOR NO KEY UPDATE;

-- name: step_plan
SELECT logical_attempts_max, retry_delay_seconds, cancelled FROM job_queue WHERE id = :job_id;

-- name: retry_step
-- A new logical attempt, with as many engine attempts available as a new job has. `paused` NULL:
-- unchanged.
UPDATE job_queue
   SET status = 'queued', outcome = NULL, sent = 0, failed = 0, skipped = 0, unended = 0,
       result = NULL, locked_by = NULL, locked_at = NULL, heartbeat_at = NULL,
       lease_expires_at = NULL, losses = 0, ended_when_lost = 0,
       run_at = :run_at, paused = coalesce(:paused::boolean, paused),
       logical_attempt = logical_attempt + 1,
       max_attempts = attempts + :max_attempts, updated_at = :now
 WHERE id = :job_id
RETURNING logical_attempt;

-- name: archive_failed_items
-- The last attempt of each restarted item, from its row.
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason, error)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, o.attempt_closed_at,
       coalesce(o.progress, 'SENT_NO_ANSWER'),
       CASE WHEN o.reason = 'resolved_failed' THEN 'disproved'
            WHEN o.progress = 'ANSWERED' THEN 'rejected' ELSE 'error' END, o.reason, o.error
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND o.job_id = :job_id AND o.status = 'failed'
   AND o.attempt_opened_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = o.id);

-- name: retry_items
-- What failed, and what the job never reached. Not what was accepted after all, nor what cannot be
-- rendered: that has no attempt, and would have none.
UPDATE channel_outbox
   SET status = 'queued', skipped = false, intent_status = 'PENDING', exhausted_reason = NULL,
       step_attempt = :attempt, attempts_before = attempts, repeats = 0, uncounted_calls = 0,
       attempt_fence = NULL, attempt_opened_at = NULL, attempt_closed_at = NULL, progress = NULL,
       maybe_received = false, waits_for = NULL, next_attempt_at = :due_at, due_at = :due_at,
       expires_at = :expires_at, updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id
   AND ((status = 'failed' AND NOT (attempts = 0 AND intent_status IS NULL))
        OR (status = 'skipped' AND reason = 'job_dead'))
   AND NOT EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = channel_outbox.id)
RETURNING id::text;

-- name: dead_steps
SELECT EXISTS (SELECT 1 FROM job_queue WHERE run_id = :run_id AND status = 'dead');

-- name: hasten_items
-- An item waiting for its next attempt need not wait any longer.
UPDATE channel_outbox SET next_attempt_at = :now, updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND next_attempt_at > :now;

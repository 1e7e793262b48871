-- Items past their deadline, ended by the clock alone.

-- name: expire_items
-- A waiting item that could only be accepted too late is ended, and says what it waited for. One
-- that may have arrived is exhausted too, so it is not called again: it is in doubt.
WITH late AS MATERIALIZED (
  SELECT id FROM channel_outbox
   WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
     AND status = 'queued' AND attempt_opened_at IS NULL AND doubted_at IS NULL
   {sqlite: ORDER BY expires_at} LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE channel_outbox AS o
   SET status = CASE WHEN o.maybe_received THEN 'queued' ELSE 'failed' END,
       intent_status = 'EXHAUSTED', exhausted_reason = 'deadline_exceeded',
       reason = coalesce(
         (SELECT 'target_' || d.state FROM target_doors d
           WHERE d.submission_target = o.submission_target AND d.state <> 'open'
             AND d.workspace_id IN ('', o.workspace_id::text) LIMIT 1),
         o.waits_for, o.reason, 'deadline_passed'),
       doubted_at = CASE WHEN o.maybe_received THEN :now::timestamptz END,
       next_attempt_at = NULL, waits_for = NULL, updated_at = :now
 WHERE o.id = ANY (ARRAY(SELECT id FROM late))
RETURNING CASE WHEN run_id IS NOT NULL THEN job_id::text END, o.id::text, o.origin, o.attempts,
          o.reason;

-- name: any_expired
SELECT 1 FROM channel_outbox
 WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
   AND status = 'queued' AND attempt_opened_at IS NULL AND doubted_at IS NULL
 LIMIT 1;

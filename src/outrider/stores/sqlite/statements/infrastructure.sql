-- The ledger's clock and what a lost worker leaves behind, in SQLite's dialect.

-- name: read_ledger_clock
SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z' AS database_at,
       (SELECT told_at FROM ledger_clock) AS told_at;

-- name: keep_ledger_clock
-- Never back, unless it was so far ahead that it cannot have been right.
INSERT INTO ledger_clock (id, told_at) VALUES (1, :told_at)
ON CONFLICT (id) DO UPDATE
   SET told_at = CASE WHEN ledger_clock.told_at > :at_most THEN excluded.told_at
                      ELSE max(ledger_clock.told_at, excluded.told_at) END;

-- name: rest_jobs
-- A job that lost worker after worker without getting anywhere waits longer each time.
UPDATE job_queue SET run_at = item.run_at, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS run_at FROM json_each(:window)) item
 WHERE job_queue.id = item.id AND status = 'queued' AND NOT cancelled;

-- name: note_lost_leases
INSERT INTO lost_leases (job_id, fence, worker_id, lost_at)
SELECT value ->> 0, value ->> 1, value ->> 2, :now FROM json_each(:window) WHERE true
ON CONFLICT (job_id, fence) DO NOTHING;

-- name: forget_lost_lease
-- Its worker has come back, knows that the job is another's, and has no call of it out any more.
DELETE FROM lost_leases WHERE job_id = :job_id AND fence = :fence;

-- name: forget_lost_leases
-- So many that nobody needs any more.
DELETE FROM lost_leases
 WHERE (job_id, fence) IN (
   SELECT l.job_id, l.fence FROM lost_leases l
    WHERE l.lost_at < :before
      AND NOT EXISTS (SELECT 1 FROM channel_outbox o
                       WHERE o.doubted_at IS NOT NULL AND o.job_id = l.job_id)
    LIMIT :most)
RETURNING job_id;

-- name: lost_holders
-- The workers that opened these doubted items and lost their lease, and when that was: of every call
-- that was abandoned, for the first of them may be the one that lives.
SELECT o.id, l.worker_id, l.lost_at
  FROM channel_outbox o JOIN lost_leases l ON l.job_id = o.job_id
   AND (l.fence = o.attempt_fence
        OR EXISTS (SELECT 1 FROM attempt_history h
                    WHERE h.outbox_id = o.id AND h.fence = l.fence AND h.outcome = 'abandoned'))
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.doubted_at IS NOT NULL
   AND o.attempt_closed_at IS NULL
   AND o.id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: note_late_acceptances
-- Of calls that were accepted, those whose item says otherwise: it was settled meanwhile, or a
-- verdict said that this attempt never arrived, and another one was made; or the attempt had failed
-- before its step began anew.
INSERT INTO late_acceptances (outbox_id, attempt, fence, answered_at, provider_message_id,
                              recorded_at)
SELECT o.id, item.attempt, item.fence, item.closed_at, item.message_id, :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 3 AS closed_at, value ->> 4 AS message_id
          FROM json_each(:window)) item
  JOIN channel_outbox o ON o.id = item.id
 WHERE o.status IN ('failed', 'skipped') OR item.attempt <= o.attempts_before
    OR ((o.attempts > item.attempt OR o.attempt_fence <> item.fence)
        AND EXISTS (SELECT 1 FROM attempt_history h
                     WHERE h.outbox_id = item.id AND h.attempt = item.attempt
                       AND h.outcome = 'disproved'))
ON CONFLICT (outbox_id, attempt, fence) DO NOTHING
RETURNING outbox_id;

-- name: places_of_items
SELECT o.id, o.tenant_id, o.workspace_id, o.run_id, o.job_id, r.campaign_id, o.reason
  FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: late_acceptances_of
SELECT attempt, answered_at, provider_message_id, recorded_at
  FROM late_acceptances WHERE outbox_id = :outbox_id
 ORDER BY attempt, fence;

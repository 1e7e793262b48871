-- The ledger's clock and what a lost worker leaves behind, in Postgres's dialect.

-- name: read_ledger_clock
SELECT clock_timestamp() AS database_at, (SELECT told_at FROM ledger_clock) AS told_at;

-- name: keep_ledger_clock
-- Never back, unless it was so far ahead that it cannot have been right.
INSERT INTO ledger_clock (id, told_at) VALUES (1, :told_at)
ON CONFLICT (id) DO UPDATE
   SET told_at = CASE WHEN ledger_clock.told_at > :at_most::timestamptz THEN excluded.told_at
                      ELSE greatest(ledger_clock.told_at, excluded.told_at) END;

-- name: rest_jobs
-- A job that lost worker after worker without getting anywhere waits longer each time.
UPDATE job_queue AS j SET run_at = item.run_at, updated_at = :now
  FROM json_to_recordset(:window) AS item (id uuid, run_at timestamptz)
 WHERE j.id = item.id AND j.status = 'queued' AND NOT j.cancelled
   AND j.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: note_lost_leases
INSERT INTO lost_leases (job_id, fence, worker_id, lost_at)
SELECT item.id, item.fence, item.worker_id, :now
  FROM json_to_recordset(:window) AS item (id uuid, fence bigint, worker_id text)
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
      AND l.job_id <> ALL (ARRAY(SELECT o.job_id FROM channel_outbox o
                                  WHERE o.doubted_at IS NOT NULL AND o.job_id IS NOT NULL))
    LIMIT :most)
RETURNING job_id::text;

-- name: lost_holders
-- The workers that opened these doubted items and lost their lease, and when that was: of every call
-- that was abandoned, for the first of them may be the one that lives.
SELECT o.id::text, l.worker_id, l.lost_at
  FROM channel_outbox o
 CROSS JOIN LATERAL (
   SELECT o.attempt_fence AS fence
   UNION
   SELECT h.fence FROM attempt_history h WHERE h.outbox_id = o.id AND h.outcome = 'abandoned') called
  JOIN lost_leases l ON l.job_id = o.job_id AND l.fence = called.fence
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.doubted_at IS NOT NULL
   AND o.attempt_closed_at IS NULL
   AND o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: note_late_acceptances
-- Of calls that were accepted, those whose item says otherwise: it was settled meanwhile, or a
-- verdict said that this attempt never arrived, and another one was made; or the attempt had failed
-- before its step began anew.
INSERT INTO late_acceptances (outbox_id, attempt, fence, answered_at, provider_message_id,
                              recorded_at)
SELECT o.id, item.attempt, item.fence, item.closed_at, item.message_id, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, attempt int, fence bigint, closed_at timestamptz, message_id text)
  JOIN channel_outbox o ON o.id = item.id
  LEFT JOIN LATERAL (SELECT h.outcome FROM attempt_history h
                      WHERE h.outbox_id = item.id AND h.attempt = item.attempt
                        AND h.outcome = 'disproved' LIMIT 1) h ON true
 WHERE (o.status IN ('failed', 'skipped') OR item.attempt <= o.attempts_before
        OR ((o.attempts > item.attempt OR o.attempt_fence <> item.fence)
            AND h.outcome IS NOT NULL))
   AND o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)))
ON CONFLICT (outbox_id, attempt, fence) DO NOTHING
RETURNING outbox_id::text;

-- name: places_of_items
SELECT o.id::text, o.tenant_id::text, o.workspace_id::text, o.run_id::text, o.job_id::text,
       r.campaign_id::text, o.reason
  FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: late_acceptances_of
SELECT attempt, answered_at, provider_message_id, recorded_at
  FROM late_acceptances WHERE outbox_id = :outbox_id
 ORDER BY attempt, fence;

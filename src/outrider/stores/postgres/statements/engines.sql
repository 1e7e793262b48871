-- What engines ask for, in Postgres's dialect: the work that waits, and the work that stands still.

-- name: waiting_jobs
-- Of one run, those that are due first; what waits for a verdict has no time, and is left out.
SELECT id::text, run_at FROM job_queue
 WHERE run_id = :run_id AND status IN ('queued', 'failed') AND NOT paused AND run_at IS NOT NULL
 ORDER BY run_at, job_queue.id LIMIT :most;

-- name: run_is_over
SELECT finished_at IS NOT NULL FROM campaign_runs WHERE id = :run_id;

-- name: stalled_runs
-- Their jobs have been due for a while, and nobody is at any of them.
SELECT tenant_id::text, id::text, due.run_at
  FROM campaign_runs
 CROSS JOIN LATERAL (
   SELECT j.run_at FROM job_queue j
    WHERE j.run_id = campaign_runs.id AND j.status IN ('queued', 'failed')
      AND NOT j.paused AND j.run_at <= :before
    ORDER BY j.run_at LIMIT 1) due
 WHERE finished_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM job_queue j
                    WHERE j.run_id = campaign_runs.id AND j.status = 'locked')
 LIMIT :most;

-- name: stalled_lanes
SELECT tenant_id::text, id::text, run_at FROM job_queue
 WHERE run_id IS NULL AND status IN ('queued', 'failed') AND NOT paused AND run_at <= :before
 ORDER BY run_at, job_queue.id LIMIT :most;

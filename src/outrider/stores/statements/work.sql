-- What an engine asks of the job queue: which of this work can start, and what is stalled.

-- name: waiting_jobs
-- The earliest due jobs of one run; a job that waits for a verdict has no due time, and is left
-- out.
SELECT id::text, run_at FROM job_queue
 WHERE run_id = :run_id AND status IN ('queued', 'failed') AND paused = false AND run_at IS NOT NULL
 ORDER BY run_at, job_queue.id LIMIT :most;

-- name: run_is_over
SELECT finished_at IS NOT NULL FROM campaign_runs WHERE id = :run_id;

-- name: stalled_runs
-- Per run, the job that has been due for longest without a holder.
SELECT r.tenant_id::text, r.id::text, due.id::text, due.run_at
  FROM campaign_runs r
 {sqlite: JOIN job_queue due ON due.id = (SELECT j.id}
 {postgres: CROSS JOIN LATERAL (SELECT j.id, j.run_at} FROM job_queue j
    WHERE j.run_id = r.id AND j.status IN ('queued', 'failed') AND j.paused = false
      AND j.run_at <= :before
    ORDER BY j.run_at, j.id LIMIT 1) {postgres: due}
 WHERE r.finished_at IS NULL
 LIMIT :most;

-- name: stalled_lanes
SELECT tenant_id::text, id::text, id::text, run_at FROM job_queue
 WHERE run_id IS NULL AND status IN ('queued', 'failed') AND paused = false AND run_at <= :before
 ORDER BY run_at, job_queue.id LIMIT :most;

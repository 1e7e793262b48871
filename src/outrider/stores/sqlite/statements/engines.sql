-- What engines ask for, in SQLite's dialect: the work that waits, and the work that stands still.

-- name: waiting_jobs
-- Of one run, those that are due first; what waits for a verdict has no time, and is left out.
SELECT id, run_at FROM job_queue
 WHERE run_id = :run_id AND status IN ('queued', 'failed') AND paused = 0 AND run_at IS NOT NULL
 ORDER BY run_at, id LIMIT :most;

-- name: run_is_over
SELECT finished_at IS NOT NULL FROM campaign_runs WHERE id = :run_id;

-- name: stalled_runs
-- Of each run, the job that has been due for longest while nobody holds it.
SELECT r.tenant_id, r.id, j.id, j.run_at
  FROM campaign_runs r
  JOIN job_queue j ON j.id = (
    SELECT w.id FROM job_queue w
     WHERE w.run_id = r.id AND w.status IN ('queued', 'failed') AND w.paused = 0
       AND w.run_at <= :before
     ORDER BY w.run_at, w.id LIMIT 1)
 WHERE r.finished_at IS NULL
 LIMIT :most;

-- name: stalled_lanes
SELECT tenant_id, id, id, run_at FROM job_queue
 WHERE run_id IS NULL AND status IN ('queued', 'failed') AND paused = 0 AND run_at <= :before
 ORDER BY run_at, id LIMIT :most;

-- What engines ask for, in SQLite's dialect: the work that waits, and the work that stands still.

-- name: waiting_jobs
-- Of one run, those that are due first; what waits for a verdict has no time, and is left out.
SELECT id, run_at FROM job_queue
 WHERE run_id = :run_id AND status IN ('queued', 'failed') AND paused = 0 AND run_at IS NOT NULL
 ORDER BY run_at, id LIMIT :most;

-- name: run_is_over
SELECT finished_at IS NOT NULL FROM campaign_runs WHERE id = :run_id;

-- name: stalled_runs
-- Their jobs have been due for a while, and nobody is at any of them.
SELECT tenant_id, id, due_at
  FROM (SELECT tenant_id, id,
               (SELECT j.run_at FROM job_queue j
                 WHERE j.run_id = campaign_runs.id AND j.status IN ('queued', 'failed')
                   AND j.paused = 0 AND j.run_at <= :before
                 ORDER BY j.run_at LIMIT 1) AS due_at
          FROM campaign_runs
         WHERE finished_at IS NULL
           AND id NOT IN (SELECT run_id FROM job_queue
                           WHERE status = 'locked' AND run_id IS NOT NULL)) waiting
 WHERE due_at IS NOT NULL
 LIMIT :most;

-- name: stalled_lanes
SELECT tenant_id, id, run_at FROM job_queue
 WHERE run_id IS NULL AND status IN ('queued', 'failed') AND paused = 0 AND run_at <= :before
 ORDER BY run_at, id LIMIT :most;

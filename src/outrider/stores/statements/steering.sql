-- Steering a run: what a pause, resume or stop of its phase changes in its jobs and its log.

-- name: serialise_controls
-- One control of a campaign at a time, before any of its rows is locked. SQLite has one writer at a
-- time anyway.
-- postgres:
SELECT pg_advisory_xact_lock(1869640814, hashtext(:campaign_id::uuid::text));
-- sqlite:
SELECT id FROM campaigns WHERE id = :campaign_id;

-- name: pause_jobs
-- In the order in which heartbeats lock them too.
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j SET paused = true, suspension_seen = false, updated_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: resume_jobs
-- Except those of a rollout's later steps.
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j SET paused = awaits_step, updated_at = :now FROM mine WHERE j.id = mine.id;

-- name: cancel_jobs
-- Due at once, so that a worker ends them; a holder opens no more attempts.
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j SET cancelled = true, paused = false, suspension_seen = false,
       queue_group = 'cancelled', updated_at = :now, status = CASE status WHEN 'failed' THEN 'queued' ELSE status END, run_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: stop_run
-- A run that has just ended normally was not stopped.
UPDATE campaign_runs SET stopped_at = :now
 WHERE id = :run_id AND stopped_at IS NULL AND (finished_at IS NULL) IS TRUE;

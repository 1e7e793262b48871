-- Claims: a job or lane is taken with a higher fence, and its run starts with the first.

-- name: claimed_phase_jobs
SELECT j.id::text, j.tenant_id::text, j.workspace_id::text, r.campaign_id::text, j.run_id::text,
       j.job_type, j.item_count,
       j.attempts, j.max_attempts, j.fence, j.cancelled, j.detail, j.logical_attempt,
       r.plan_version, j.queue_group
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN window(id uuid)
   AND j.asset_id IS NULL
 ORDER BY j.id;

-- name: queue_groups
-- The groups with waiting jobs, and when the first of each is due: one look-up per group, however
-- many jobs wait in it.
-- postgres:
WITH RECURSIVE waiting AS (
  (SELECT queue_group, run_at FROM job_queue
    WHERE status = 'queued' AND paused = false AND run_id IS NOT NULL AND queue_group > :after
    ORDER BY queue_group, run_at, id LIMIT 1)
  UNION ALL
  SELECT next.queue_group, next.run_at
    FROM waiting CROSS JOIN LATERAL (
      SELECT j.queue_group, j.run_at FROM job_queue j
       WHERE j.status = 'queued' AND j.paused = false AND j.run_id IS NOT NULL
         AND j.queue_group > waiting.queue_group
       ORDER BY j.queue_group, j.run_at, j.id LIMIT 1) next
)
SELECT queue_group, run_at FROM waiting LIMIT :most;
-- sqlite:
WITH RECURSIVE waiting (queue_group) AS (
  SELECT min(queue_group) FROM job_queue
   WHERE status = 'queued' AND paused = 0 AND run_id IS NOT NULL AND queue_group > :after
  UNION ALL
  SELECT (SELECT min(j.queue_group) FROM job_queue j
           WHERE j.status = 'queued' AND j.paused = 0 AND j.run_id IS NOT NULL
             AND j.queue_group > waiting.queue_group)
    FROM waiting WHERE waiting.queue_group IS NOT NULL
)
SELECT queue_group,
       (SELECT min(j.run_at) FROM job_queue j
         WHERE j.status = 'queued' AND j.paused = 0 AND j.run_id IS NOT NULL
           AND j.queue_group = waiting.queue_group AND j.run_at > '') AS run_at
  FROM waiting WHERE queue_group IS NOT NULL LIMIT :most;

-- name: claim_jobs
-- The oldest due jobs of a group become ours: a higher fence shuts out the previous holder.
WITH due AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE status = 'queued' AND paused = false AND run_id IS NOT NULL AND queue_group = :queue_group
     AND run_at <= :now AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = 1)
   ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE job_queue AS j
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now
  FROM due WHERE j.id = due.id
RETURNING j.id::text;

-- name: claim_lanes
-- Those of a mode that have waited longest; with `targets` only theirs, and none of `closed` ones.
WITH due AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE status = 'queued' AND paused = false AND run_id IS NULL AND mode = :mode AND run_at <= :now
     AND (:targets::text IS NULL OR submission_target IN list(:targets))
     AND submission_target NOT IN list(:closed)
     AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = 1)
   ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE job_queue AS j
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now, run_at = NULL
  FROM due WHERE j.id = due.id
RETURNING j.id::text, tenant_id::text, workspace_id::text, submission_target, mode, fence, attempts,
          lease_expires_at;

-- name: next_lanes_due
SELECT 'realtime', min(run_at) AS run_at FROM job_queue
 WHERE status = 'queued' AND paused = false AND run_id IS NULL AND mode = 'realtime'
   AND (:targets::text IS NULL OR submission_target IN list(:targets))
   AND submission_target NOT IN list(:closed)
UNION ALL
SELECT 'batch', min(run_at) AS run_at FROM job_queue
 WHERE status = 'queued' AND paused = false AND run_id IS NULL AND mode = 'batch'
   AND (:targets::text IS NULL OR submission_target IN list(:targets))
   AND submission_target NOT IN list(:closed);

-- name: claim_given_job
-- A failed job need not be queued again first: a caller that names it has waited for it.
UPDATE job_queue
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now,
       run_at = CASE WHEN run_id IS NOT NULL THEN run_at END
 WHERE id = :job_id AND status IN ('queued', 'failed') AND paused = false AND run_at <= :now
   AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = 1)
RETURNING run_id IS NULL, id::text, tenant_id::text, workspace_id::text, submission_target, mode, fence,
          attempts, lease_expires_at;

-- name: lock_runs_to_start
-- The runs of which these are the first jobs. A run stopped before its start never starts.
SELECT id::text, plan_version, campaign_id::text, tenant_id::text, workspace_id::text
  FROM campaign_runs
 WHERE status = 'queued' AND stopped_at IS NULL
   AND id = ANY (ARRAY(
         SELECT run_id FROM job_queue
          WHERE id IN window(id uuid)))
 ORDER BY campaign_runs.id FOR NO KEY UPDATE;

-- name: start_run
UPDATE campaign_runs SET status = 'running', started_at = :now, status_seq = :status_seq
 WHERE id = :run_id;

-- name: claimed_jobs
SELECT j.id::text, j.tenant_id::text, j.workspace_id::text, r.campaign_id::text, j.run_id::text,
       j.asset_id::text,
       j.contract_id, j.fallback_contract_id, j.first_position, j.last_position, j.item_count,
       j.attempts,
       j.max_attempts, j.fence, r.scheduled_for, j.cancelled, r.retry_of::text,
       j.retry_job_id::text, j.logical_attempt, r.plan_version, j.lease_expires_at,
       j.queue_group, j.losses, r.local_launch, j.first_draw, j.last_draw, j.distrusted,
       j.first_choice, j.last_choice,
       r.status = 'queued'
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN window(id uuid)
   AND j.asset_id IS NOT NULL
 ORDER BY j.id;

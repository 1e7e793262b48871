-- Jobs as leases: claim with a higher fence, keep alive, give back, rescue from the dead.

-- name: suspensions
-- Of the jobs that a worker still holds, whether each was paused or stopped.
WITH held AS window(id uuid, fence bigint)
SELECT j.id::text, j.paused OR j.cancelled
  FROM held
  JOIN job_queue j ON looked_up(j.id, held.id) AND j.fence = held.fence AND j.status = 'locked';

-- name: see_suspensions
-- Whoever paused or stopped them may rely on it: no call of these begins any more.
WITH held AS window(id uuid, fence bigint)
UPDATE job_queue AS j SET suspension_seen = true
  FROM held
 WHERE looked_up(j.id, held.id) AND j.fence = held.fence AND j.status = 'locked';

-- name: suspensions_unseen
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND status = 'locked' AND (paused OR cancelled)
                  AND NOT suspension_seen);

-- name: claimed_phase_jobs
SELECT j.id::text, j.tenant_id::text, j.workspace_id::text, r.campaign_id::text, j.run_id::text,
       j.job_type, j.item_count,
       j.attempts, j.max_attempts, j.fence, j.cancelled, j.detail, j.logical_attempt,
       r.plan_version, j.queue_group
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN window(id uuid)
   AND j.asset_id IS NULL
 ORDER BY j.id;

-- name: bury_left_waiting
-- A worker that was taken for dead gave items back, or has tries left for them, after their job
-- was stopped, or given up, and had ended. As `bury_waiting` does it.
UPDATE channel_outbox AS o
   SET status = CASE WHEN o.maybe_received THEN 'queued' WHEN o.attempts = 0 THEN 'skipped'
                     ELSE 'failed' END,
       skipped = NOT o.maybe_received AND o.attempts = 0,
       doubted_at = CASE WHEN o.maybe_received THEN :now::timestamptz END,
       intent_status = CASE WHEN o.maybe_received THEN 'PENDING' END,
       reason = :reason, next_attempt_at = NULL, updated_at = :now
  FROM job_queue j
 WHERE (j.outcome IS NULL OR j.unended > 0) AND j.outcome IS NOT NULL
   AND j.cancelled = :cancelled::boolean AND (j.cancelled OR j.status = 'dead')
   AND j.updated_at >= :since AND o.run_id = j.run_id AND o.job_id = j.id
   AND o.status = 'queued' AND o.doubted_at IS NULL AND o.attempt_opened_at IS NULL
RETURNING o.id::text;

-- name: rest_jobs
-- A job that lost worker after worker without getting anywhere waits longer each time.
WITH item AS window(id uuid, run_at timestamptz)
UPDATE job_queue AS j SET run_at = item.run_at, updated_at = :now
  FROM item
 WHERE looked_up(j.id, item.id) AND j.status = 'queued' AND NOT j.cancelled;

-- name: note_lost_leases
INSERT INTO lost_leases (job_id, fence, worker_id, lost_at)
SELECT item.id, item.fence, item.worker_id, :now
  FROM window(id uuid, fence bigint, worker_id text) AS item WHERE true
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

-- name: queue_groups
-- The groups that have jobs waiting, and when the first of each is due: one look a group, however
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
-- The oldest due jobs of a group become ours: a higher fence shuts out whoever held them before.
WITH due AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE status = 'queued' AND paused = false AND run_id IS NOT NULL AND queue_group = :queue_group
     AND run_at <= :now
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
-- One that failed need not be queued again first: whoever names it has waited for it.
UPDATE job_queue
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now,
       run_at = CASE WHEN run_id IS NOT NULL THEN run_at END
 WHERE id = :job_id AND status IN ('queued', 'failed') AND paused = false AND run_at <= :now
RETURNING run_id IS NULL, id::text, tenant_id::text, workspace_id::text, submission_target, mode, fence,
          attempts, lease_expires_at;

-- name: job_standing
SELECT status, run_at, paused FROM job_queue WHERE id = :job_id;

-- name: lock_runs_to_start
-- Whose first jobs these are. What was stopped before its start never starts.
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
       j.queue_group, j.losses, r.status = 'queued'
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN window(id uuid)
   AND j.asset_id IS NOT NULL
 ORDER BY j.id;

-- name: heartbeat_jobs
-- In the order of their ids, as controls lock them too: so neither can wait for the other in turn.
WITH held AS window(id uuid, fence bigint), mine AS MATERIALIZED (
  SELECT j.id FROM job_queue j JOIN held ON looked_up(j.id, held.id) AND j.fence = held.fence
   WHERE j.status = 'locked' {postgres: ORDER BY j.id FOR NO KEY UPDATE OF j}
)
UPDATE job_queue AS j SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
  FROM mine WHERE j.id = mine.id
RETURNING j.id::text;

-- name: hold_job
-- Prove, and keep for the rest of this transaction, that the job is still ours; and tell whether
-- its phase was paused or stopped meanwhile.
UPDATE job_queue SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING paused OR cancelled;

-- name: release_job
-- What was cancelled meanwhile is due at once, unless only a verdict can wake it.
UPDATE job_queue SET status = 'queued', locked_by = NULL, locked_at = NULL,
       run_at = CASE WHEN cancelled AND :run_at::timestamptz IS NOT NULL THEN :now::timestamptz ELSE :run_at END,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING id::text;

-- name: fail_job
-- What was cancelled meanwhile is tried again at once; giving it up calls nobody.
WITH past AS MATERIALIZED (
  SELECT count(*) AS ended FROM channel_outbox o
   WHERE o.run_id = (SELECT run_id FROM job_queue WHERE id = :job_id) AND o.job_id = :job_id
     AND o.status <> 'queued'
)
UPDATE job_queue SET status = 'failed',
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       run_at = CASE WHEN cancelled THEN :now::timestamptz ELSE :run_at::timestamptz END,
       last_error = :error, locked_by = NULL, locked_at = NULL, heartbeat_at = NULL,
       lease_expires_at = NULL, updated_at = :now
  FROM past
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING id::text, attempts >= max_attempts;

-- name: requeue_failed
-- What somebody is writing is left to the next look, here and below: no deadlock with a control.
WITH due AS MATERIALIZED (
  SELECT id FROM job_queue WHERE status = 'failed' AND run_at <= :now
   FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job_queue AS j SET status = 'queued', updated_at = :now FROM due WHERE j.id = due.id
RETURNING j.id::text;

-- name: rescue_expired
-- Leases that ran out, and whatever the lease says, locks without a heartbeat for too long. Items
-- that have ended since a worker was last lost are progress, and what was lost before it counts no
-- more.
WITH expired AS MATERIALIZED (
  SELECT id, (SELECT count(*) FROM channel_outbox o
                 WHERE o.run_id = job_queue.run_id AND o.job_id = job_queue.id
                   AND o.status <> 'queued') AS ended
    FROM job_queue
   WHERE status = 'locked' AND (lease_expires_at <= :now OR heartbeat_at <= :stale_before)
   FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job_queue AS j SET status = 'queued', run_at = :now,
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       last_error = 'lease expired: ' || locked_by, locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
  FROM expired WHERE j.id = expired.id
RETURNING j.id::text, run_id::text, tenant_id::text, workspace_id::text, last_error, fence,
          attempts - max_attempts;

-- name: lock_holders
SELECT DISTINCT locked_by FROM job_queue WHERE status = 'locked';

-- name: jobs_held_by
SELECT id::text, run_id::text, fence FROM job_queue WHERE status = 'locked' AND locked_by = :worker_id
 {postgres: ORDER BY job_queue.id FOR NO KEY UPDATE};

-- name: take_back_unbegun
-- A worker died, and its own record says which calls it had begun: what else it had opened was
-- never called, and waits as before.
UPDATE channel_outbox
   SET attempts = attempts - CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       next_attempt_at = coalesce(next_attempt_at, :now), updated_at = :now
 WHERE status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NOT NULL
   AND attempt_closed_at IS NULL AND attempt_fence = :fence AND job_id = :job_id
   AND run_id = :run_id
   AND id NOT IN window(id uuid)
RETURNING id::text;

-- name: take_back_unbegun_in_lane
-- A worker died, and its own record says which calls it had begun: what else it had opened was
-- never called, and waits as before.
UPDATE channel_outbox
   SET attempts = attempts - CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       next_attempt_at = coalesce(next_attempt_at, :now), updated_at = :now
 WHERE status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NOT NULL
   AND attempt_closed_at IS NULL AND attempt_fence = :fence AND job_id = :job_id
   AND run_id IS NULL AND next_attempt_at IS NOT NULL
   AND id NOT IN window(id uuid)
RETURNING id::text;

-- name: rescue_from
-- Jobs of workers that are known to be dead need not wait for their leases.
WITH held AS MATERIALIZED (
  SELECT id, (SELECT count(*) FROM channel_outbox o
                 WHERE o.run_id = job_queue.run_id AND o.job_id = job_queue.id
                   AND o.status <> 'queued') AS ended
    FROM job_queue
   WHERE status = 'locked' AND locked_by IN window(locked_by text)
   {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j SET status = 'queued', run_at = :now,
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       last_error = 'worker died: ' || locked_by, locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
  FROM held WHERE j.id = held.id
RETURNING j.id::text, run_id::text, tenant_id::text, workspace_id::text, last_error, fence,
          attempts - max_attempts;

-- name: wake_resolved
-- Parked jobs that have no verdict to wait for, or have other items to go on with, or were
-- stopped: a stop waits for no verdict. And lanes whose next item was set after they were
-- released.
WITH woken AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE status = 'queued' AND paused = false AND run_at IS NULL
     AND CASE WHEN run_id IS NOT NULL THEN
           (SELECT job_queue.cancelled OR count(o.doubted_at) = 0 OR count(o.next_attempt_at) > 0
              FROM channel_outbox o
             WHERE o.run_id = job_queue.run_id AND o.job_id = job_queue.id)
         ELSE
           (SELECT count(*) > 0 FROM (
             SELECT 1 FROM channel_outbox o
              WHERE o.job_id = job_queue.id AND o.run_id IS NULL AND o.next_attempt_at IS NOT NULL
              LIMIT 1) next)
         END
   FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job_queue AS j SET run_at = :now, updated_at = :now FROM woken WHERE j.id = woken.id
RETURNING j.id::text;

-- name: work_is_left
-- Whether anything is due until that moment, or with a worker now; what waits for a closed door is
-- left to whoever works when it opens.
SELECT EXISTS (SELECT 1 FROM job_queue WHERE status = 'locked'
                  {sqlite: AND lease_expires_at > ''})
    OR EXISTS (SELECT 1 FROM job_queue WHERE status = 'failed' AND run_at <= :until)
    OR EXISTS (SELECT 1 FROM job_queue j
                WHERE status = 'queued' AND paused = false AND run_at <= :until
                  AND NOT EXISTS (SELECT 1 FROM paused_targets p
                                   WHERE p.submission_target = j.submission_target)
                  AND NOT EXISTS (SELECT 1 FROM target_doors d
                                   WHERE d.submission_target = j.submission_target
                                     AND d.state <> 'open' AND d.workspace_id = ''))
    OR EXISTS (SELECT 1 FROM domain_events WHERE status = 'received' AND route_at <= :until);

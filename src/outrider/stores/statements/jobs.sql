-- Jobs as leases: renewed, held and handed back, and how a pause or stop reaches their holder.

-- name: suspensions
-- For the jobs that a worker still holds, whether each was paused or stopped.
WITH held AS window(id uuid, fence bigint)
SELECT j.id::text, j.paused OR j.cancelled
  FROM held
  JOIN job_queue j ON looked_up(j.id, held.id) AND j.fence = held.fence AND j.status = 'locked';

-- name: see_suspensions
-- A guarantee to the caller of pause or stop: no call of these begins any more.
WITH held AS window(id uuid, fence bigint)
UPDATE job_queue AS j SET suspension_seen = true
  FROM held
 WHERE looked_up(j.id, held.id) AND j.fence = held.fence AND j.status = 'locked';

-- name: suspensions_unseen
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND status = 'locked' AND (paused OR cancelled)
                  AND NOT suspension_seen);

-- name: job_standing
SELECT status, run_at, paused FROM job_queue WHERE id = :job_id;

-- name: heartbeat_jobs
-- In id order, as controls lock them too, so that neither can deadlock the other.
WITH held AS window(id uuid, fence bigint), mine AS MATERIALIZED (
  SELECT j.id FROM job_queue j JOIN held ON looked_up(j.id, held.id) AND j.fence = held.fence
   WHERE j.status = 'locked' {postgres: ORDER BY j.id FOR NO KEY UPDATE OF j}
)
UPDATE job_queue AS j SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
  FROM mine WHERE j.id = mine.id
RETURNING j.id::text;

-- name: hold_job
-- Prove that the job is still ours, and lock it for the rest of this transaction; and say whether
-- its phase was paused or stopped meanwhile.
UPDATE job_queue SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING paused OR cancelled;

-- name: release_job
-- A job cancelled meanwhile is due at once, unless only a verdict can wake it.
UPDATE job_queue SET status = 'queued', locked_by = NULL, locked_at = NULL,
       run_at = CASE WHEN cancelled AND :run_at::timestamptz IS NOT NULL THEN :now::timestamptz ELSE :run_at END,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING id::text;

-- name: requeue_failed
-- Rows locked by another transaction are left to the next pass, here and below: no deadlock with a
-- control.
WITH due AS MATERIALIZED (
  SELECT id FROM job_queue WHERE status = 'failed' AND run_at <= :now
   FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE job_queue AS j SET status = 'queued', updated_at = :now FROM due WHERE j.id = due.id
RETURNING j.id::text;

-- name: take_back_unbegun_in_lane
-- A worker died, and its own journal says which calls it had begun: what else it had opened was
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

-- name: wake_resolved
-- Parked jobs that have no verdict to wait for, or have other items to continue with, or were
-- stopped: a stop waits for no verdict. And lanes whose next item was set after they were released.
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
-- Whether anything is due by then, or held by a worker now; what waits for a closed door is left to
-- the workers that are running when it opens.
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

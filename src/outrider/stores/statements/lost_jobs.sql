-- Jobs that failed or lost their worker: rescued or put to rest, and their open attempts taken
-- back.

-- name: bury_left_waiting
-- A worker presumed dead handed items back, or has tries left for them, after their job was stopped
-- or given up and had ended. Done as in `bury_waiting`.
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
-- A job that repeatedly loses its worker without progress waits longer each time.
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
-- Its worker has come back, knows that the job has another holder, and has no call of it in
-- progress.
DELETE FROM lost_leases WHERE job_id = :job_id AND fence = :fence;

-- name: forget_lost_leases
-- At most this many that are no longer needed.
DELETE FROM lost_leases
 WHERE (job_id, fence) IN (
   SELECT l.job_id, l.fence FROM lost_leases l
    WHERE l.lost_at < :before
      AND l.job_id <> ALL (ARRAY(SELECT o.job_id FROM channel_outbox o
                                  WHERE o.doubted_at IS NOT NULL AND o.job_id IS NOT NULL))
    LIMIT :most)
RETURNING job_id::text;

-- name: fail_job
-- A job cancelled meanwhile is retried at once; giving it up makes no call.
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

-- name: rescue_expired
-- Expired leases, and, whatever the lease says, locks without a heartbeat for too long. Items that
-- have ended since a worker was last lost are progress, which resets the count of losses.
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
-- A worker died, and its own journal says which calls it had begun: what else it had opened was
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

-- name: rescue_from
-- Jobs of workers known to be dead need not wait for their leases.
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

-- Who works at this database: each process writes its row now and then.

-- name: worker_seen
INSERT INTO workers (id, role, host, pid, version, engine, targets, mode, started_at, seen_at)
VALUES (:id, :role, :host, :pid, :version, :engine, :targets, :mode, :now, :now)
ON CONFLICT (id) DO UPDATE
   SET seen_at = excluded.seen_at, role = excluded.role, targets = excluded.targets,
       mode = excluded.mode;

-- name: worker_left
DELETE FROM workers WHERE id = :id;

-- name: forget_workers
-- Who has been silent for long, and holds nothing.
DELETE FROM workers
 WHERE seen_at < :before
   AND NOT EXISTS (SELECT 1 FROM job_queue j WHERE j.status = 'locked' AND j.locked_by = workers.id);

-- name: workers_seen_since
SELECT id, role, host, pid, version, engine, targets, mode, started_at, seen_at FROM workers
 WHERE seen_at >= :since ORDER BY workers.id LIMIT :most;

-- name: worker_seen_last
SELECT max(seen_at) AS seen_at FROM workers WHERE role = 'worker';

-- name: all_workers
SELECT id, role, host, pid, version, engine, targets, mode, started_at, seen_at FROM workers
 WHERE id > :after ORDER BY workers.id LIMIT :most;

-- name: jobs_held
-- What these workers hold: jobs of runs by run and target, and lanes by target.
SELECT j.locked_by, j.run_id::text, j.submission_target, count(*)::int, min(j.locked_at) AS held_at,
       max(j.lease_expires_at) AS ends_at
  FROM job_queue j
 WHERE j.status = 'locked' AND j.locked_by IN window(id text)
 GROUP BY j.locked_by, j.run_id, j.submission_target
 ORDER BY j.locked_by, min(j.locked_at) LIMIT :most;

-- name: unlisted_holders
SELECT count(DISTINCT j.locked_by) FROM job_queue j
 WHERE j.status = 'locked' AND j.lease_expires_at > :now
   AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = j.locked_by);

-- name: silent_holders
-- Workers that hold jobs and have not reported for a while.
SELECT w.id, w.host, w.pid, w.seen_at, count(*)::int, max(j.lease_expires_at) AS ends_at
  FROM workers w JOIN job_queue j ON j.locked_by = w.id AND j.status = 'locked'
 WHERE w.seen_at < :before
 GROUP BY w.id, w.host, w.pid, w.seen_at LIMIT :most;

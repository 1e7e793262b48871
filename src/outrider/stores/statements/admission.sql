-- Releasing runs: a workspace's work in progress, approval, and the leases of the queue.

-- name: serialise_admission
-- SQLite has one writer at a time anyway.
-- postgres:
SELECT pg_advisory_xact_lock(1869640815, hashtext(:workspace_id::uuid::text));
-- sqlite:
SELECT :workspace_id;

-- name: count_load
-- Released runs that have not ended, and the unfinished items of their jobs.
SELECT count(*), coalesce(sum((SELECT sum(j.item_count) FROM job_queue j
                                WHERE j.run_id = r.id
                                  AND j.outcome IS NULL)), 0)
  FROM campaign_runs r
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id
   AND r.finished_at IS NULL AND r.approved_at IS NOT NULL;

-- name: release_held_jobs
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j SET paused = awaits_step, run_at = greatest(run_at, :not_before), updated_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: approve_run
UPDATE campaign_runs SET approved_at = :now WHERE id = :run_id AND approved_at IS NULL;

-- name: note_approval
UPDATE run_requests
   SET needs_approval = false, approved_by = :approved_by, reason = 'room', updated_at = :now
 WHERE run_id = :run_id AND status = 'waiting';

-- name: end_run_request
UPDATE run_requests
   SET status = :status, reason = :reason, lease_owner = NULL, lease_expires_at = NULL,
       needs_approval = false, updated_at = :now
 WHERE run_id = :run_id AND status = 'waiting';

-- name: hold_run_request
SELECT run_id::text FROM run_requests
 WHERE run_id = :run_id AND status = 'waiting' AND lease_owner = :owner AND fence = :fence
   FOR UPDATE;

-- name: waiting_workspaces
-- Workspaces with runs that wait only for room.
SELECT DISTINCT tenant_id::text, workspace_id::text FROM run_requests
 WHERE status = 'waiting' AND needs_approval = false
 LIMIT :most;

-- name: run_waits_in_workspace
SELECT run_id::text FROM run_requests
 WHERE status = 'waiting' AND needs_approval = false
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
 LIMIT 1;

-- name: run_request_of
SELECT status, needs_approval FROM run_requests WHERE run_id = :run_id;

-- name: lease_run_requests
-- The oldest run of a workspace: ids are in time order.
WITH free AS MATERIALIZED (
  SELECT run_id FROM run_requests
   WHERE status = 'waiting' AND needs_approval = false
     AND tenant_id = :tenant_id AND workspace_id = :workspace_id
     AND (lease_expires_at IS NULL OR lease_expires_at <= :now)
   ORDER BY run_requests.run_id LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE run_requests AS q
   SET lease_owner = :owner, lease_expires_at = :expires_at, fence = q.fence + 1, updated_at = :now
  FROM free WHERE q.run_id = free.run_id
RETURNING q.run_id::text, q.tenant_id::text, q.workspace_id::text,
          (SELECT r.campaign_id::text FROM campaign_runs r WHERE r.id = q.run_id), q.fence,
          q.approved_by;

-- name: release_run_requests
WITH held AS window(run_id uuid, fence bigint)
UPDATE run_requests AS q SET lease_owner = NULL, lease_expires_at = NULL
  FROM held
 WHERE looked_up(q.run_id, held.run_id) AND q.fence = held.fence AND q.status = 'waiting'
   AND q.lease_owner = :owner;

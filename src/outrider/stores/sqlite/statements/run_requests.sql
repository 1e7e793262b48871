-- Run requests, in SQLite's dialect.

-- name: workspace_by_id
SELECT project, environment FROM workspaces WHERE id = :workspace_id AND tenant_id = :tenant_id;

-- name: insert_run_request
INSERT INTO run_requests (run_id, tenant_id, workspace_id, project, environment, plan_id,
                          plan_version, run_request_id, idempotency_key, status, needs_approval,
                          reason, created_at, updated_at)
VALUES (:run_id, :tenant_id, :workspace_id, :project, :environment, :plan_id, :plan_version,
        :run_request_id, unhex(:key), :status, :needs_approval, :reason, :now, :now);

-- name: run_of_request
SELECT run_id FROM run_requests WHERE idempotency_key = unhex(:key);

-- name: serialise_admission
-- SQLite has one writer at a time anyway.
SELECT :workspace_id;

-- name: count_load
-- Runs that were let go and have not ended, and the items of their jobs that have not.
SELECT count(*), coalesce(sum((SELECT sum(j.item_count) FROM job_queue j
                                WHERE j.run_id = r.id
                                  AND j.outcome IS NULL)), 0)
  FROM campaign_runs r
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id
   AND r.finished_at IS NULL AND r.approved_at IS NOT NULL;

-- name: release_held_jobs
UPDATE job_queue SET paused = 0, run_at = max(run_at, :not_before), updated_at = :now
 WHERE run_id = :run_id AND outcome IS NULL;

-- name: approve_run
UPDATE campaign_runs SET approved_at = :now WHERE id = :run_id AND approved_at IS NULL;

-- name: note_approval
UPDATE run_requests
   SET needs_approval = 0, approved_by = :approved_by, reason = 'room', updated_at = :now
 WHERE run_id = :run_id AND status = 'waiting';

-- name: end_run_request
UPDATE run_requests
   SET status = :status, reason = :reason, lease_owner = NULL, lease_expires_at = NULL,
       needs_approval = 0, updated_at = :now
 WHERE run_id = :run_id AND status = 'waiting';

-- name: hold_run_request
SELECT run_id FROM run_requests
 WHERE run_id = :run_id AND status = 'waiting' AND lease_owner = :owner AND fence = :fence;

-- name: waiting_workspaces
-- Whose runs wait for nothing but room.
SELECT DISTINCT tenant_id, workspace_id FROM run_requests
 WHERE status = 'waiting' AND needs_approval = 0
 LIMIT :most;

-- name: run_waits_in_workspace
SELECT run_id FROM run_requests
 WHERE status = 'waiting' AND needs_approval = 0
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
 LIMIT 1;

-- name: run_request_of
SELECT status, needs_approval FROM run_requests WHERE run_id = :run_id;

-- name: lease_run_requests
-- The oldest of a workspace: ids are in the order of time.
UPDATE run_requests
   SET lease_owner = :owner, lease_expires_at = :expires_at, fence = fence + 1, updated_at = :now
 WHERE run_id IN (SELECT run_id FROM run_requests
                   WHERE status = 'waiting' AND needs_approval = 0
                     AND tenant_id = :tenant_id AND workspace_id = :workspace_id
                     AND (lease_expires_at IS NULL OR lease_expires_at <= :now)
                   ORDER BY run_id LIMIT :most)
RETURNING run_id, tenant_id, workspace_id,
          (SELECT r.campaign_id FROM campaign_runs r WHERE r.id = run_requests.run_id), fence,
          approved_by;

-- name: release_run_requests
UPDATE run_requests SET lease_owner = NULL, lease_expires_at = NULL
  FROM (SELECT value ->> 0 AS run_id, value ->> 1 AS fence FROM json_each(:window)) held
 WHERE run_requests.run_id = held.run_id AND run_requests.fence = held.fence
   AND status = 'waiting' AND lease_owner = :owner;

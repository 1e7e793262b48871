-- Run requests in the database: each is one run, however often it is repeated.

-- name: workspace_by_id
SELECT project, environment FROM workspaces WHERE id = :workspace_id AND tenant_id = :tenant_id;

-- name: insert_run_request
INSERT INTO run_requests (run_id, tenant_id, workspace_id, project, environment, plan_id,
                          plan_version, run_request_id, idempotency_key, status, needs_approval,
                          reason, created_at, updated_at)
VALUES (:run_id, :tenant_id, :workspace_id, :project, :environment, :plan_id, :plan_version,
        :run_request_id, decode(:key, 'hex'), :status, :needs_approval, :reason, :now, :now);

-- name: run_of_request
SELECT run_id::text FROM run_requests WHERE idempotency_key = decode(:key, 'hex');

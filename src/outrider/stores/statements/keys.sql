-- API keys and workspaces: created, listed, revoked and found. Secrets never reach the database.

-- name: insert_api_key
INSERT INTO api_keys (id, tenant_id, workspace_id, name, scopes, salt, digest, created_at)
VALUES (:id, :tenant_id, :workspace_id, :name, :scopes, :salt, :digest, :now);

-- name: api_key_to_check
SELECT tenant_id::text, workspace_id::text, name, scopes, salt, digest FROM api_keys
 WHERE id = :id AND revoked_at IS NULL;

-- name: api_key_by_id
SELECT id::text, name, scopes, created_at, revoked_at FROM api_keys
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: api_keys_page
SELECT k.id::text, k.name, k.scopes, k.created_at, k.revoked_at FROM api_keys k
 WHERE k.tenant_id = :tenant_id AND k.workspace_id = :workspace_id AND k.id > :after
 ORDER BY k.id LIMIT :most;

-- name: revoke_api_key
UPDATE api_keys SET revoked_at = :now
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id AND revoked_at IS NULL
RETURNING id::text;

-- name: usable_api_key
SELECT id::text FROM api_keys
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND revoked_at IS NULL
 LIMIT 1;

-- name: lock_workspace
-- One at a time from here to the end of the transaction; rows that refer to it may be written.
SELECT id::text FROM workspaces WHERE id = :workspace_id AND tenant_id = :tenant_id
   FOR NO KEY UPDATE;

-- name: tenant_by_name
-- Names are not unique; the oldest holder of a name wins.
SELECT t.id::text FROM tenants t WHERE t.name = :name ORDER BY t.created_at, t.id LIMIT 1;

-- name: insert_tenant
INSERT INTO tenants (id, name, created_at) VALUES (:id, :name, :now);

-- name: workspace_by_name
SELECT id::text FROM workspaces
 WHERE tenant_id = :tenant_id AND project = :project AND environment = :environment;

-- name: workspace_name
SELECT t.name, w.project, w.environment FROM workspaces w JOIN tenants t ON t.id = w.tenant_id
 WHERE w.id = :workspace_id AND w.tenant_id = :tenant_id;

-- name: workspaces_page
SELECT w.id::text, t.id::text, t.name, w.project, w.environment
  FROM workspaces w JOIN tenants t ON t.id = w.tenant_id
 WHERE w.id > :after ORDER BY w.id LIMIT :most;

-- name: insert_workspace
INSERT INTO workspaces (id, tenant_id, project, environment, created_at)
VALUES (:id, :tenant_id, :project, :environment, :now);

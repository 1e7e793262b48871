-- Callbacks: where those who submit intents want to hear of them.

-- name: callback_endpoint_ids
SELECT c.url, c.id::text FROM callback_endpoints c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id AND c.url IN window(url text);

-- name: insert_callback_endpoints
-- Two servers may come with the same address at once.
INSERT INTO callback_endpoints (id, tenant_id, workspace_id, url, created_at)
SELECT id, :tenant_id, :workspace_id, url, :now FROM window(id uuid, url text) AS item WHERE true
ON CONFLICT (tenant_id, workspace_id, url) DO NOTHING;

-- name: disable_callback_endpoints
UPDATE callback_endpoints SET disabled_at = :now, disabled_why = :why
 WHERE id IN window(id uuid) AND disabled_at IS NULL;

-- name: enable_callback_endpoints
UPDATE callback_endpoints SET disabled_at = NULL, disabled_why = NULL
 WHERE id IN window(id uuid) AND disabled_at IS NOT NULL;

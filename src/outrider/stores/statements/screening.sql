-- Screening: a workspace's policies, and what is held back because of them.

-- name: workflow_policy
SELECT document FROM workflow_policies
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: set_workflow_policy
INSERT INTO workflow_policies (tenant_id, workspace_id, document, updated_at)
VALUES (:tenant_id, :workspace_id, :document::json, :now)
ON CONFLICT (tenant_id, workspace_id) DO UPDATE
   SET document = excluded.document, updated_at = excluded.updated_at;

-- name: defer_items
-- Its contract's time starts when it may first go.
WITH item AS window(id uuid, until timestamptz, waits_for text, expires_at timestamptz)
UPDATE channel_outbox AS o
   SET next_attempt_at = item.until, waits_for = item.waits_for,
       due_at = CASE WHEN o.attempts = 0 THEN item.until ELSE o.due_at END,
       expires_at = CASE WHEN o.attempts = 0 THEN item.expires_at ELSE o.expires_at END,
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempt_opened_at IS NULL
   AND NOT o.maybe_received AND o.doubted_at IS NULL;

-- name: skip_items
WITH item AS window(id uuid, reason text, error text)
UPDATE channel_outbox AS o
   SET status = 'skipped', skipped = true, intent_status = NULL, reason = item.reason,
       error = item.error, next_attempt_at = NULL, waits_for = NULL, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempt_opened_at IS NULL
   AND NOT o.maybe_received AND o.doubted_at IS NULL;

-- name: fail_items
-- No call can be made for these: an item that nothing here can send, or whose payload is malformed.
WITH item AS window(id uuid, reason text, error text)
UPDATE channel_outbox AS o
   SET status = 'failed', intent_status = NULL, reason = item.reason, error = item.error,
       next_attempt_at = NULL, waits_for = NULL, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempt_opened_at IS NULL
   AND NOT o.maybe_received AND o.doubted_at IS NULL;

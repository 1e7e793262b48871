-- The screen stage, in SQLite's dialect: a workspace's policies, and what they hold back.

-- name: workflow_policy
SELECT document FROM workflow_policies
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: set_workflow_policy
INSERT INTO workflow_policies (tenant_id, workspace_id, document, updated_at)
VALUES (:tenant_id, :workspace_id, :document, :now)
ON CONFLICT (tenant_id, workspace_id) DO UPDATE
   SET document = excluded.document, updated_at = excluded.updated_at;

-- name: heard_lately
-- What an address was sent, is being called with, or may have been: the latest of each.
SELECT item.value ->> 0, item.value ->> 1, o.attempt_opened_at
  FROM json_each(:window) item
 CROSS JOIN channel_outbox o ON o.id IN (
         SELECT h.id FROM channel_outbox h
          WHERE h.origin = 'workflow' AND h.tenant_id = :tenant_id
            AND h.workspace_id = :workspace_id AND h.channel = item.value ->> 0
            AND lower(h.recipient_address) = lower(item.value ->> 1)
            AND h.attempt_opened_at > :since AND h.status NOT IN ('failed', 'skipped')
          ORDER BY h.attempt_opened_at DESC LIMIT :most);

-- name: defer_items
-- Its contract's time begins when it may first go.
UPDATE channel_outbox
   SET next_attempt_at = item.until, waits_for = item.waits_for,
       due_at = CASE WHEN attempts = 0 THEN item.until ELSE due_at END,
       expires_at = CASE WHEN attempts = 0 THEN item.expires_at ELSE channel_outbox.expires_at END,
       updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS until, value ->> 2 AS waits_for,
               value ->> 3 AS expires_at
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempt_opened_at IS NULL
   AND NOT maybe_received AND doubted_at IS NULL;

-- name: skip_items
UPDATE channel_outbox
   SET status = 'skipped', skipped = true, intent_status = NULL, reason = item.reason,
       error = item.error, next_attempt_at = NULL, waits_for = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS reason, value ->> 2 AS error
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempt_opened_at IS NULL
   AND NOT maybe_received AND doubted_at IS NULL;

-- name: fail_items
-- No call can be made of these: an item that nothing here can send, or whose payload is no letter.
UPDATE channel_outbox
   SET status = 'failed', intent_status = NULL, reason = item.reason, error = item.error,
       next_attempt_at = NULL, waits_for = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS reason, value ->> 2 AS error
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempt_opened_at IS NULL
   AND NOT maybe_received AND doubted_at IS NULL;

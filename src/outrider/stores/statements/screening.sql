-- Screening: a workspace's policies, recent messages per address, and what is held back.

-- name: workflow_policy
SELECT document FROM workflow_policies
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: set_workflow_policy
INSERT INTO workflow_policies (tenant_id, workspace_id, document, updated_at)
VALUES (:tenant_id, :workspace_id, :document::json, :now)
ON CONFLICT (tenant_id, workspace_id) DO UPDATE
   SET document = excluded.document, updated_at = excluded.updated_at;

-- name: heard_lately
-- What an address was sent, is being called with, or may have been: the latest of each.
-- postgres:
SELECT item.channel, item.address, o.attempt_opened_at
  FROM window(channel text, address text) AS item
 CROSS JOIN LATERAL (
   SELECT h.attempt_opened_at FROM channel_outbox h
    WHERE h.origin = 'workflow' AND h.tenant_id = :tenant_id AND h.workspace_id = :workspace_id
      AND h.channel = item.channel AND lower(h.recipient_address) = lower(item.address)
      AND h.attempt_opened_at > :since AND h.status NOT IN ('failed', 'skipped')
    ORDER BY h.attempt_opened_at DESC LIMIT :most) o;
-- sqlite:
SELECT item.channel, item.address, o.attempt_opened_at
  FROM window(channel text, address text) AS item
 CROSS JOIN channel_outbox o ON o.id IN (
         SELECT h.id FROM channel_outbox h
          WHERE h.origin = 'workflow' AND h.tenant_id = :tenant_id
            AND h.workspace_id = :workspace_id AND h.channel = item.channel
            AND lower(h.recipient_address) = lower(item.address)
            AND h.attempt_opened_at > :since AND h.status NOT IN ('failed', 'skipped')
          ORDER BY h.attempt_opened_at DESC LIMIT :most);

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

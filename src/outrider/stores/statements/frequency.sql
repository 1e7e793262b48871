-- The frequency cap: who was sent what lately, in workspaces that have one.

-- name: lock_capped_addresses
-- Locks each address until the commit, in the window's order, whether it was known or not.
INSERT INTO capped_addresses AS a (tenant_id, workspace_id, channel, address, used_at)
SELECT :tenant_id, :workspace_id, item.channel, item.address, :now
  FROM window(channel text, address text) AS item
 {sqlite: WHERE true}
 ORDER BY item.channel, item.address
ON CONFLICT (tenant_id, workspace_id, channel, address) DO UPDATE SET used_at = excluded.used_at;

-- name: capped_sends
-- The latest of each address. What was refused or skipped was not received.
-- postgres:
SELECT item.channel, item.address, s.outbox_id::text, s.sent_at
  FROM window(channel text, address text) AS item
 CROSS JOIN LATERAL (
   SELECT h.outbox_id, h.sent_at FROM capped_sends h
    WHERE h.tenant_id = :tenant_id AND h.workspace_id = :workspace_id
      AND h.channel = item.channel AND h.address = item.address AND h.sent_at > :since
      AND EXISTS (SELECT 1 FROM channel_outbox o
                   WHERE o.id = h.outbox_id AND o.status NOT IN ('failed', 'skipped'))
    ORDER BY h.sent_at DESC LIMIT :most) s;
-- sqlite:
SELECT s.channel, s.address, s.outbox_id, s.sent_at
  FROM window(channel text, address text) AS item
 CROSS JOIN capped_sends s
    ON s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
   AND s.channel = item.channel AND s.address = item.address AND s.sent_at > :since
 CROSS JOIN channel_outbox o ON o.id = s.outbox_id AND o.status NOT IN ('failed', 'skipped')
 ORDER BY s.sent_at DESC LIMIT :most * (SELECT count(*) FROM json_each(:window));

-- name: note_capped_sends
INSERT INTO capped_sends (tenant_id, workspace_id, channel, address, sent_at, outbox_id)
SELECT :tenant_id, :workspace_id, item.channel, item.address, :now, item.id
  FROM window(id uuid, channel text, address text) AS item
 {sqlite: WHERE true}
ON CONFLICT (tenant_id, workspace_id, channel, address, sent_at, outbox_id) DO NOTHING;

-- name: forget_capped_sends
-- What no cap can still count, of addresses that this transaction has locked.
DELETE FROM capped_sends
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND {postgres: (channel, address) = ANY (ARRAY(SELECT (item.channel, item.address)
                   FROM window(channel text, address text) AS item))}
       {sqlite: (channel, address) IN (SELECT item.channel, item.address
                   FROM window(channel text, address text) AS item)}
   AND sent_at <= :since;

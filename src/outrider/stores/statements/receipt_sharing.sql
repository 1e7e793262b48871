-- Receipts of a target that workspaces share: whose they are, and handed over to them.

-- name: shared_items_of_messages
-- The items with these ids of their provider, of the workspaces that share the target. Where there are
-- two, the id says of neither that it is the one.
-- postgres:
SELECT item.place, o.tenant_id::text, o.workspace_id::text, encode(o.idempotency_key, 'hex'),
       o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, message_id text) AS item
  JOIN LATERAL (
    SELECT o.* FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.message_id
       AND coalesce(c.submission_target, o.submission_target) = :submission_target
       AND o.workspace_id::text IN list(:workspaces)
     LIMIT 2) o ON true;
-- sqlite:
SELECT item.place, o.tenant_id, o.workspace_id, lower(hex(o.idempotency_key)), o.id, o.run_id,
       o.channel, o.recipient_address, o.status, o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, message_id text) AS item
  JOIN channel_outbox o ON o.id IN (
    SELECT o.id FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.message_id
       AND coalesce(c.submission_target, o.submission_target) = :submission_target
       AND o.workspace_id IN list(:workspaces)
     LIMIT 2);

-- name: addressees_of_target
-- Which of these workspaces have written to the addresses through the target; the latest first.
SELECT item.place, a.tenant_id::text, a.workspace_id::text
  FROM window(place int, address text) AS item
  {postgres: JOIN LATERAL (SELECT * FROM shared_addressees a
                            WHERE a.submission_target = :submission_target
                              AND a.address = lower(item.address)
                            LIMIT :most) a ON true}
  {sqlite: JOIN shared_addressees a ON a.submission_target = :submission_target
                                   AND a.address = lower(item.address) AND :most > 0}
 WHERE a.workspace_id::text IN list(:workspaces)
 ORDER BY item.place, a.written_at DESC, a.workspace_id;

-- name: hand_over_receipts
-- A receipt that is there already stays as it is.
INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
                      provider_message_id, permanent, reason, sender, text, keyword, occurred_at,
                      received_at)
SELECT r.id, item.tenant_id, item.workspace_id, r.submission_target, r.receipt_id, r.event,
       r.reference, r.provider_message_id, r.permanent, r.reason, r.sender, r.text, r.keyword,
       r.occurred_at, r.received_at
  FROM window(id uuid, taken_by uuid, tenant_id uuid, workspace_id uuid) AS item
  {postgres: JOIN LATERAL (SELECT * FROM receipts r
                            WHERE r.workspace_id = item.taken_by AND r.id >= item.id
                            ORDER BY r.id LIMIT 1) r ON r.id = item.id}
  {sqlite: JOIN receipts r ON r.workspace_id = item.taken_by AND r.id = item.id}
  {postgres: LEFT JOIN LATERAL (SELECT known.id FROM receipts known
                                 WHERE known.workspace_id = item.workspace_id AND known.id >= item.id
                                 ORDER BY known.id LIMIT 1) known ON known.id = item.id
 WHERE known.id IS NULL}
  {sqlite: WHERE NOT EXISTS (SELECT 1 FROM receipts known
                              WHERE known.workspace_id = item.workspace_id AND known.id = item.id)}
ON CONFLICT (workspace_id, submission_target, receipt_id) DO NOTHING;

-- name: handed_over_receipts
-- Those that are there under their own id: the others repeat what that workspace knows already.
SELECT item.id::text, item.workspace_id::text
  FROM window(id uuid, workspace_id uuid) AS item
  {postgres: JOIN LATERAL (SELECT r.id FROM receipts r
                            WHERE r.workspace_id = item.workspace_id AND r.id >= item.id
                            ORDER BY r.id LIMIT 1) r ON r.id = item.id}
  {sqlite: JOIN receipts r ON r.workspace_id = item.workspace_id AND r.id = item.id};

-- name: pass_receipts
INSERT INTO passed_receipts (workspace_id, id)
SELECT workspace_id, id FROM window(workspace_id uuid, id uuid) AS item WHERE true
ON CONFLICT (workspace_id, id) DO NOTHING;

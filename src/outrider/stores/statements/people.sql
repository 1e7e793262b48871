-- One person: audience memberships, items, receipts, opt-outs and events of an address or recipient id.

-- name: pages_with_address
-- In each of the newest campaigns, the pages that have this fingerprint: one page per window of an
-- audience is read, and those of small windows.
-- postgres:
SELECT c.id::text, p.first_position, encode(p.entries, 'hex')
  FROM (SELECT id FROM campaigns
         WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
         ORDER BY id DESC LIMIT :campaigns) c
 CROSS JOIN LATERAL (
   SELECT first_position, entries FROM address_pages
    WHERE campaign_id = c.id AND bucket IN (:bucket, :mixed)
      AND position(decode(:fingerprint, 'hex') IN entries) > 0 OFFSET 0) p
 LIMIT :most;
-- sqlite:
SELECT c.id, p.first_position, lower(hex(p.entries))
  FROM (SELECT id FROM campaigns
         WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
         ORDER BY id DESC LIMIT :campaigns) c
 CROSS JOIN address_pages p ON p.campaign_id = c.id AND p.bucket IN (:bucket, :mixed)
 WHERE instr(p.entries, unhex(:fingerprint)) > 0
 LIMIT :most;

-- name: members_at
SELECT m.campaign_id::text, m.recipient_id, m.email, m.phone, m.push_token
  FROM window(campaign_id uuid, position int) AS item
 {sqlite: CROSS JOIN audience_members m
           ON m.campaign_id = item.campaign_id AND m.position = item.position}
 {postgres: CROSS JOIN LATERAL (
   SELECT m.campaign_id, m.recipient_id, m.email, m.phone, m.push_token FROM audience_members m
    WHERE m.campaign_id = item.campaign_id AND m.position = item.position LIMIT 1) m};

-- name: has_campaigns_beyond
-- Whether a workspace has more campaigns than are looked through.
SELECT 1 FROM campaigns WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
 ORDER BY id DESC LIMIT 1 OFFSET :campaigns;

-- name: members_by_recipient
-- A look-up in each of the newest campaigns, which costs less than an index over all audiences.
-- postgres:
SELECT c.id::text, m.recipient_id, m.email, m.phone, m.push_token
  FROM (SELECT id FROM campaigns
         WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
         ORDER BY id DESC LIMIT :campaigns) c
 CROSS JOIN LATERAL (
   SELECT recipient_id, email, phone, push_token FROM audience_members
    WHERE campaign_id = c.id AND recipient_id = :address LIMIT 1) m
 LIMIT :most;
-- sqlite:
SELECT c.id, m.recipient_id, m.email, m.phone, m.push_token
  FROM (SELECT id FROM campaigns
         WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
         ORDER BY id DESC LIMIT :campaigns) c
 CROSS JOIN audience_members m ON m.campaign_id = c.id AND m.recipient_id = :address
 LIMIT :most;

-- name: launch_messages
-- What the keys of a campaign's items are made of, but for the recipient.
SELECT r.campaign_id::text, r.id::text, r.scheduled_for, a.id::text, a.channel, a.submission_target,
       a.script_version
  FROM campaign_runs r JOIN assets a ON a.campaign_id = r.campaign_id
 WHERE r.campaign_id IN window(id uuid) AND r.phase = :phase;

-- name: items_of_keys
SELECT o.id::text, o.created_at, o.domain_event_id::text
  FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.idempotency_key = ANY (ARRAY(
         SELECT decode(key, 'hex') FROM window(key text) AS item));

-- name: workflow_items_to
SELECT o.id::text, o.created_at, o.domain_event_id::text
  FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.origin = 'workflow'
   AND o.channel = :channel AND lower(o.recipient_address) = lower(:address::text)
   AND (o.channel <> 'push' OR o.recipient_address = :address)
 ORDER BY o.attempt_opened_at DESC LIMIT :most;

-- name: workflow_items_of_recipient
SELECT o.id::text, o.created_at, o.domain_event_id::text
  FROM channel_outbox o
 WHERE o.workspace_id = :workspace_id AND o.origin = 'workflow' AND o.recipient_id = :address
   AND unindexed(o.tenant_id) = :tenant_id
 ORDER BY o.id DESC LIMIT :most;

-- name: intents_to
SELECT o.id::text, o.created_at, o.domain_event_id::text
  FROM channel_outbox o
 WHERE o.workspace_id = :workspace_id AND o.origin = 'intent'
   AND lower(o.recipient_address) = lower(:address::text)
   AND (o.channel <> 'push' OR o.recipient_address = :address)
   AND unindexed(o.tenant_id) = :tenant_id
 ORDER BY o.id DESC LIMIT :most;

-- name: receipts_of_items
SELECT i.id::text, i.matched_at FROM item_receipts i
 WHERE i.outbox_id IN window(id uuid);

-- name: receipts_from
SELECT r.id::text, r.received_at FROM receipts r
 WHERE r.workspace_id = :workspace_id AND r.sender IS NOT NULL AND r.sender = :address
   AND r.tenant_id = :tenant_id
 ORDER BY r.id DESC LIMIT :most;

-- name: receipts_by_id
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id
   AND r.id IN window(id uuid)
   AND NOT EXISTS (SELECT 1 FROM passed_receipts p
                    WHERE p.workspace_id = r.workspace_id AND p.id = r.id);

-- name: suppressions_of_address
SELECT channel, address, topic, reason, source, evidence, includes_transactional, created_at
  FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND channel IN window(channel text) AND address = lower(:address::text);

-- name: domain_events_by_id
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN window(id uuid);

-- name: campaigns_of_runs
SELECT r.id::text, c.id::text, c.name
  FROM campaign_runs r JOIN campaigns c ON c.id = r.campaign_id
 WHERE r.id IN window(id uuid);

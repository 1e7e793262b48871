-- What a person has left in each table, and the statements that take it away.

-- name: campaigns_after
SELECT id::text FROM campaigns
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id > :after
 ORDER BY campaigns.id LIMIT :most;

-- name: address_pages_among
-- postgres:
SELECT item.id::text, p.bucket, p.first_position, encode(p.entries, 'hex')
  FROM window(id uuid) AS item
 CROSS JOIN LATERAL (
   SELECT bucket, first_position, entries FROM address_pages
    WHERE campaign_id = item.id AND bucket IN (:bucket, :mixed)
      AND position(decode(:fingerprint, 'hex') IN entries) > 0 OFFSET 0) p;
-- sqlite:
SELECT item.id, p.bucket, p.first_position, lower(hex(p.entries))
  FROM window(id uuid) AS item
 CROSS JOIN address_pages p ON p.campaign_id = item.id AND p.bucket IN (:bucket, :mixed)
 WHERE instr(p.entries, unhex(:fingerprint)) > 0;

-- name: put_address_pages
WITH item AS window(campaign_id uuid, bucket int, first_position int, entries text)
UPDATE address_pages AS p SET entries = decode(item.entries, 'hex')
  FROM item
 WHERE looked_up(p.campaign_id, item.campaign_id) AND looked_up(p.bucket, item.bucket)
   AND looked_up(p.first_position, item.first_position);

-- name: members_placed
SELECT m.campaign_id::text, m.position, m.recipient_id, m.email, m.phone, m.push_token
  FROM window(campaign_id uuid, position int) AS item
 {sqlite: CROSS JOIN audience_members m
           ON m.campaign_id = item.campaign_id AND m.position = item.position}
 {postgres: CROSS JOIN LATERAL (
   SELECT * FROM audience_members m
    WHERE m.campaign_id = item.campaign_id AND m.position = item.position LIMIT 1) m};

-- name: members_named
SELECT m.campaign_id::text, m.position, m.recipient_id, m.email, m.phone, m.push_token
  FROM window(id uuid) AS item
 {sqlite: CROSS JOIN audience_members m ON m.campaign_id = item.id AND m.recipient_id = :recipient_id}
 {postgres: CROSS JOIN LATERAL (
   SELECT * FROM audience_members m
    WHERE m.campaign_id = item.id AND m.recipient_id = :recipient_id LIMIT 1) m};

-- name: erase_members
WITH item AS window(campaign_id uuid, position int, recipient_id text)
UPDATE audience_members AS m
   SET recipient_id = item.recipient_id, email = NULL, phone = NULL, push_token = NULL,
       attributes = :empty::json
  FROM item
 WHERE looked_up(m.campaign_id, item.campaign_id) AND looked_up(m.position, item.position);

-- name: draws_of_open_runs
-- Of the steps of rollouts, and of the variants of messages: the salt, and the range.
SELECT DISTINCT r.campaign_id::text, j.run_id::text, j.first_draw, j.last_draw
  FROM campaign_runs r JOIN job_queue j ON j.run_id = r.id
 WHERE r.campaign_id IN window(id uuid) AND r.finished_at IS NULL AND j.first_draw IS NOT NULL
UNION
SELECT r.campaign_id::text, j.run_id::text || '|variant|' || a.message_id, j.first_choice,
       j.last_choice
  FROM campaign_runs r JOIN job_queue j ON j.run_id = r.id JOIN assets a ON a.id = j.asset_id
 WHERE r.campaign_id IN window(id uuid) AND r.finished_at IS NULL
   AND j.first_choice IS NOT NULL AND j.retry_job_id IS NULL;

-- name: uploads_among
SELECT u.campaign_id::text, u.chunk, u.first_position, u.records::text FROM audience_uploads u
 WHERE u.campaign_id IN window(id uuid)
   AND (u.campaign_id, u.chunk) > (:after_campaign, :after_chunk)
 ORDER BY u.campaign_id, u.chunk LIMIT :most;

-- name: put_upload
UPDATE audience_uploads SET records = :records
 WHERE campaign_id = :campaign_id AND chunk = :chunk;

-- name: erase_digests
UPDATE digests
   SET address = :erased, recipient_id = :erased, error = NULL, sealed_at = coalesce(sealed_at, :now),
       closed_at = coalesce(closed_at, :now)
 WHERE workspace_id = :workspace_id AND lower(address) IN window(address text)
RETURNING id::text;

-- name: erase_digest_entries
UPDATE digest_entries SET variables = :empty::json WHERE digest_id IN window(id uuid) RETURNING digest_id::text;

-- name: remove_named_in_events
DELETE FROM event_people
 WHERE workspace_id = :workspace_id
   AND (kind, address) IN (SELECT kind, address FROM window(kind text, address text) AS item)
RETURNING domain_event_id::text;

-- name: remove_capped_sends
DELETE FROM capped_sends
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, address FROM window(channel text, address text) AS item)
RETURNING outbox_id::text;

-- name: remove_capped_addresses
DELETE FROM capped_addresses
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, address FROM window(channel text, address text) AS item)
RETURNING address;

-- name: remove_shared_addressees
DELETE FROM shared_addressees
 WHERE workspace_id = :workspace_id AND address IN window(address text) RETURNING address;

-- name: remove_answers_about
DELETE FROM idempotency_records
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND answer IS NOT NULL
   AND strpos(lower(answer), :address) > 0
RETURNING key;

-- name: step_recipients
SELECT s.rule_id::text, s.recipient_config::text FROM workflow_rules r
  JOIN workflow_steps s ON s.rule_id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id;

-- name: jobs_held_since_before
-- They may have read the person's addresses, and may still write them.
SELECT count(*)::int FROM campaign_runs r JOIN job_queue j ON j.run_id = r.id
 WHERE r.campaign_id IN window(id uuid) AND r.finished_at IS NULL
   AND j.status = 'locked' AND j.locked_at < :begun_at;

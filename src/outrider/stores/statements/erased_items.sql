-- Messages of a person, with their attempts and receipts, and events that name the person.

-- name: lock_items_to_erase
SELECT o.id::text FROM channel_outbox o WHERE o.id IN window(id uuid) ORDER BY o.id FOR UPDATE;

-- name: items_to_erase
-- Whether each may be erased: what may still be called, or was and nobody knows how it ended, waits.
SELECT o.id::text, o.run_id::text, o.recipient_id, o.recipient_address, o.job_id::text, o.status,
       o.origin, o.channel, o.domain_event_id::text,
       o.attempt_opened_at IS NULL AND o.doubted_at IS NULL AND NOT o.maybe_received AS is_uncalled
  FROM channel_outbox o WHERE o.id IN window(id uuid) ORDER BY o.id;

-- name: end_items_to_erase
UPDATE channel_outbox SET status = 'skipped', skipped = true,
       intent_status = CASE origin WHEN 'intent' THEN 'REJECTED' END,
       reason = :reason, next_attempt_at = NULL, waits_for = NULL, updated_at = :now
 WHERE id IN window(id uuid) AND status = 'queued';

-- name: erase_items
WITH item AS window(id uuid, recipient_id text, reason text)
UPDATE channel_outbox AS o
   SET recipient_id = item.recipient_id, recipient_address = NULL, subject = NULL,
       payload = CASE WHEN o.payload IS NULL THEN NULL ELSE :empty::json END,
       template = CASE WHEN o.template IS NULL THEN NULL ELSE '' END, reason = item.reason, error = NULL
  FROM item WHERE looked_up(o.id, item.id);

-- name: erase_contents
-- Of messages to others that tell of the person.
UPDATE channel_outbox
   SET subject = NULL, payload = CASE WHEN payload IS NULL THEN NULL ELSE :empty::json END,
       template = CASE WHEN template IS NULL THEN NULL ELSE '' END, error = NULL
 WHERE id IN window(id uuid);

-- name: erase_attempts
UPDATE attempt_history SET reason = CASE WHEN reason IS NULL THEN NULL ELSE :reason END, error = NULL
 WHERE outbox_id IN window(id uuid) RETURNING outbox_id::text;

-- name: erase_deliveries
UPDATE deliveries SET reason = '' WHERE outbox_id IN window(id uuid) RETURNING outbox_id::text;

-- name: erase_verdicts
UPDATE doubt_verdicts SET source = kind WHERE outbox_id IN window(id uuid) RETURNING id::text;

-- name: erase_message_events
UPDATE message_events SET data = :data WHERE outbox_id IN window(id uuid) RETURNING seq;

-- name: receipts_to_erase
SELECT r.id::text, i.outbox_id::text, o.run_id::text, r.reason, r.sender, r.text
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id
  LEFT JOIN channel_outbox o ON o.id = i.outbox_id
 WHERE r.workspace_id = :workspace_id AND r.id IN window(id uuid) ORDER BY r.id;

-- name: erase_receipts
UPDATE receipts SET sender = NULL, text = NULL, reason = ''
 WHERE workspace_id = :workspace_id AND id IN window(id uuid);

-- name: open_events_after
-- Those that may still become messages. Nobody has noted yet whom they name.
SELECT e.id::text, e.subject::text FROM domain_events e
 WHERE e.tenant_id = :tenant_id AND e.workspace_id = :workspace_id AND e.id > :after
   AND e.status = :status ORDER BY e.id LIMIT :most;

-- name: events_to_erase
SELECT e.id::text, e.status, e.subject::text, e.routes::text, e.error FROM domain_events e
 WHERE e.tenant_id = :tenant_id AND e.workspace_id = :workspace_id AND e.id IN window(id uuid)
 ORDER BY e.id;

-- name: lock_events_to_erase
SELECT e.id::text FROM domain_events e
 WHERE e.tenant_id = :tenant_id AND e.workspace_id = :workspace_id AND e.id IN window(id uuid)
 ORDER BY e.id FOR UPDATE;

-- name: erase_events
-- One that has not become messages yet becomes none.
WITH item AS window(id uuid, subject text, routes text, error text)
UPDATE domain_events AS e
   SET subject = item.subject::json, variables = :empty::json, routes = item.routes::json,
       error = item.error, status = CASE e.status WHEN 'received' THEN 'failed' ELSE e.status END,
       route_at = NULL
  FROM item WHERE looked_up(e.id, item.id);

-- name: items_of_events
SELECT o.id::text FROM channel_outbox o WHERE o.domain_event_id IN window(id uuid);

-- name: erase_entries_of_events
-- Of digests that are closed.
UPDATE digest_entries SET variables = :empty::json
 WHERE domain_event_id IN window(id uuid)
   AND (SELECT d.closed_at FROM digests d WHERE d.id = digest_entries.digest_id) IS NOT NULL
RETURNING digest_id::text;

-- name: events_in_open_digests
SELECT DISTINCT n.domain_event_id::text FROM digest_entries n
 WHERE n.domain_event_id IN window(id uuid)
   AND (SELECT d.closed_at FROM digests d WHERE d.id = n.digest_id) IS NULL;

-- name: list_erasing_rows
INSERT INTO erasing_rows (id) SELECT id FROM window(id uuid) AS item WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: clear_erasing_rows
DELETE FROM erasing_rows WHERE id IN window(id uuid);

-- Single messages, events and receipts that are retired by their age. Each statement looks at the next
-- few rows by id, whatever they are, so that none of them reads through what has to stay.

-- name: aged_items
WITH oldest AS MATERIALIZED (
  SELECT o.id, o.workspace_id, o.idempotency_key, o.provider_message_id, o.run_id, o.status, o.updated_at
    FROM channel_outbox o WHERE o.id > :after AND o.id < :until ORDER BY o.id LIMIT :most
)
SELECT w.id::text, w.workspace_id::text, encode(w.idempotency_key, 'hex'), w.provider_message_id,
       w.run_id IS NULL AND w.status <> 'queued' AND w.updated_at < :before AS is_aged
  FROM oldest w ORDER BY w.id;

-- name: aged_events
-- Routed long ago, and no message or open digest of it is left.
WITH oldest AS MATERIALIZED (
  SELECT e.id, e.workspace_id, e.event_id, e.status, e.updated_at
    FROM domain_events e WHERE e.id > :after AND e.id < :until ORDER BY e.id LIMIT :most
)
SELECT w.id::text, w.workspace_id::text, w.event_id,
       w.status = 'routed' AND w.updated_at < :before
         AND (SELECT o.id FROM channel_outbox o WHERE o.domain_event_id = w.id LIMIT 1) IS NULL
         AND (SELECT n.digest_id FROM digest_entries n
               WHERE n.domain_event_id = w.id
                 AND (SELECT d.closed_at FROM digests d WHERE d.id = n.digest_id) IS NULL
               LIMIT 1) IS NULL AS is_aged
  FROM oldest w ORDER BY w.id;

-- name: remove_event_people
DELETE FROM event_people WHERE domain_event_id IN window(id uuid);

-- name: remove_digest_entries
DELETE FROM digest_entries WHERE domain_event_id IN window(id uuid);

-- name: remove_domain_events
DELETE FROM domain_events WHERE id IN window(id uuid);

-- name: aged_digests
WITH oldest AS MATERIALIZED (
  SELECT d.id, d.closed_at FROM digests d WHERE d.id > :after AND d.id < :until
   ORDER BY d.id LIMIT :most
)
SELECT w.id::text,
       w.closed_at IS NOT NULL AND w.closed_at < :before
         AND (SELECT n.digest_id FROM digest_entries n WHERE n.digest_id = w.id LIMIT 1) IS NULL
         AS is_aged
  FROM oldest w ORDER BY w.id;

-- name: remove_digests
DELETE FROM digests WHERE id IN window(id uuid);

-- name: workspaces_after
SELECT id::text FROM workspaces WHERE id > :after ORDER BY workspaces.id LIMIT :most;

-- name: aged_receipts
-- Those of no item, which nobody looks for any more.
WITH oldest AS MATERIALIZED (
  SELECT r.id, r.submission_target, r.receipt_id, r.received_at FROM receipts r
   WHERE r.workspace_id = :workspace_id AND r.id > :after AND r.id < :until
   ORDER BY r.id LIMIT :most
)
SELECT w.id::text, w.submission_target, w.receipt_id,
       w.received_at < :before
         AND (SELECT m.id FROM item_receipts m WHERE m.id = w.id LIMIT 1) IS NULL
         AND (SELECT q.look_at FROM waiting_receipts q WHERE q.id = w.id LIMIT 1) IS NULL
         AS is_aged
  FROM oldest w ORDER BY w.id;

-- name: remove_waiting_receipts
DELETE FROM waiting_receipts WHERE id IN window(id uuid);

-- name: remove_passed_receipts
DELETE FROM passed_receipts WHERE workspace_id = :workspace_id AND id IN window(id uuid);

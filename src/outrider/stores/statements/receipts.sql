-- The way back: receipts come in, and find their items.

-- name: insert_receipts
-- Those that are new to their target, and whether they are in the queue already: in Postgres they are,
-- in SQLite that takes another statement.
-- postgres:
WITH new AS (
  INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
                        provider_message_id, permanent, reason, sender, text, keyword, occurred_at,
                        received_at)
  SELECT id, :tenant_id, :workspace_id, submission_target, receipt_id, event, reference,
         provider_message_id, permanent, reason, sender, text, keyword, occurred_at, :now
    FROM window(id uuid, submission_target text, receipt_id text, event text,
                reference text, provider_message_id text, permanent boolean, reason
                text, sender text, text text, keyword text, occurred_at timestamptz,
                memory_key text) AS item
   WHERE decode(item.memory_key, 'hex') <> ALL (ARRAY(
           SELECT k.key FROM retired_keys k
            WHERE k.workspace_id = :workspace_id AND k.key = ANY (ARRAY(
                    SELECT decode(memory_key, 'hex') FROM window(memory_key text) AS known))))
  ON CONFLICT (workspace_id, submission_target, receipt_id) DO NOTHING
  RETURNING id, submission_target,
            keyword IS NOT NULL OR event = 'complained' OR (event = 'bounced' AND permanent) AS urgent
), queued AS (
  INSERT INTO waiting_receipts (id, workspace_id, submission_target, urgent, looks, look_at)
  SELECT id, :workspace_id, submission_target, urgent, 0, :now FROM new
)
SELECT id::text, true FROM new;
-- sqlite:
INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
                      provider_message_id, permanent, reason, sender, text, keyword, occurred_at,
                      received_at)
SELECT id, :tenant_id, :workspace_id, submission_target, receipt_id, event, reference,
       provider_message_id, permanent, reason, sender, text, keyword, occurred_at, :now
  FROM window(id uuid, submission_target text, receipt_id text, event text,
              reference text, provider_message_id text, permanent boolean, reason
              text, sender text, text text, keyword text, occurred_at timestamptz,
              memory_key text) AS item
 WHERE NOT EXISTS (SELECT 1 FROM retired_keys k
                    WHERE k.workspace_id = :workspace_id AND k.key = decode(item.memory_key, 'hex'))
ON CONFLICT (workspace_id, submission_target, receipt_id) DO NOTHING
RETURNING id, false;

-- name: insert_waiting_receipts
INSERT INTO waiting_receipts (id, workspace_id, submission_target, urgent, looks, look_at)
SELECT id, workspace_id, submission_target, urgent, looks, look_at
  FROM window(id uuid, workspace_id uuid, submission_target text, urgent boolean, looks
              int, look_at timestamptz) AS item;

-- name: count_sought_receipts
-- Of one target, those that were looked for in vain and are looked for again; no more are counted.
SELECT count(*)::int FROM (
  SELECT 1 FROM waiting_receipts
   WHERE workspace_id = :workspace_id AND submission_target = :submission_target
     AND looks > 0 AND look_at IS NOT NULL
   LIMIT :most) counted;

-- name: claim_receipts
-- Those that are due, the oldest first and the urgent before the others. They leave the queue with
-- this transaction: whoever dies in it has changed nothing, and what found no item is put back.
-- postgres:
WITH urgent AS MATERIALIZED (
  SELECT ctid FROM waiting_receipts WHERE urgent AND look_at <= :now
   ORDER BY look_at, id LIMIT :most_urgent FOR UPDATE SKIP LOCKED
), others AS MATERIALIZED (
  SELECT ctid FROM waiting_receipts WHERE NOT urgent AND look_at <= :now
   ORDER BY look_at, id LIMIT :most_others FOR UPDATE SKIP LOCKED
)
DELETE FROM waiting_receipts
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM urgent UNION ALL SELECT ctid FROM others))
RETURNING id::text, workspace_id::text, looks, urgent;
-- sqlite:
DELETE FROM waiting_receipts
 WHERE id IN (SELECT id FROM (SELECT id FROM waiting_receipts WHERE urgent AND look_at <= :now
                               ORDER BY look_at, id LIMIT :most_urgent)
               UNION ALL
              SELECT id FROM (SELECT id FROM waiting_receipts WHERE NOT urgent AND look_at <= :now
                               ORDER BY look_at, id LIMIT :most_others))
RETURNING id, workspace_id, looks, urgent;

-- name: claimed_receipts
-- In Postgres by the order of the primary key, as `match_plain_receipts` says.
SELECT r.id::text, r.tenant_id::text, r.workspace_id::text, r.submission_target, r.receipt_id,
       r.event, r.reference, r.provider_message_id, r.permanent, r.reason, r.sender, r.text,
       r.keyword, coalesce(r.occurred_at, r.received_at) AS effective_at, item.looks, item.urgent
  FROM window(id uuid, workspace_id uuid, looks int, urgent boolean) AS item
  {postgres: JOIN LATERAL (SELECT * FROM receipts r
                            WHERE r.workspace_id = item.workspace_id AND r.id >= item.id
                            ORDER BY r.id LIMIT 1) r ON r.id = item.id}
  {sqlite: JOIN receipts r ON r.workspace_id = item.workspace_id AND r.id = item.id};

-- name: claim_receipt
-- One that matched nothing so far, for somebody who knows what it is about.
DELETE FROM waiting_receipts WHERE id = :id AND workspace_id = :workspace_id
RETURNING id::text, workspace_id::text, looks, urgent;

-- name: next_receipt_due
SELECT min(look_at) AS look_at FROM (
  SELECT min(look_at) AS look_at FROM waiting_receipts WHERE look_at IS NOT NULL AND urgent
   UNION ALL
  SELECT min(look_at) FROM waiting_receipts WHERE look_at IS NOT NULL AND NOT urgent) earliest;

-- name: items_of_references
-- Of the same workspace, and last called at the same target.
-- postgres:
SELECT item.place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, tenant_id uuid, workspace_id uuid, submission_target text, key text) AS item
  JOIN LATERAL (
    SELECT o.* FROM channel_outbox o
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE o.tenant_id = item.tenant_id AND o.workspace_id = item.workspace_id
       AND o.idempotency_key = decode(item.key, 'hex')
       AND coalesce(c.submission_target, o.submission_target) = item.submission_target
     LIMIT 1) o ON true;
-- sqlite:
SELECT item.place, o.id, o.run_id, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, tenant_id uuid, workspace_id uuid, submission_target text, key text) AS item
  JOIN channel_outbox o ON o.tenant_id = item.tenant_id AND o.workspace_id = item.workspace_id
                       AND o.idempotency_key = unhex(item.key)
  LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
 WHERE coalesce(c.submission_target, o.submission_target) = item.submission_target;

-- name: items_of_provider_messages
-- Where a provider gave two items the same id, it says of neither which one is meant. Items are found by
-- their own id alone: by workspace, a plan made when there were few would read the whole ledger.
-- postgres:
SELECT item.place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, tenant_id uuid, workspace_id uuid, submission_target text,
              message_id text) AS item
  JOIN LATERAL (
    SELECT o.* FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.message_id
       AND unindexed(o.tenant_id) = item.tenant_id::text
       AND unindexed(o.workspace_id) = item.workspace_id::text
       AND coalesce(c.submission_target, o.submission_target) = item.submission_target
     LIMIT 2) o ON true;
-- sqlite:
SELECT item.place, o.id, o.run_id, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM window(place int, tenant_id uuid, workspace_id uuid, submission_target text,
              message_id text) AS item
  JOIN channel_outbox o ON o.id IN (
    SELECT o.id FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.message_id
       AND o.tenant_id = item.tenant_id AND o.workspace_id = item.workspace_id
       AND coalesce(c.submission_target, o.submission_target) = item.submission_target
     LIMIT 2);

-- name: item_of_receipt
-- The item that somebody says a receipt is about.
SELECT 0 AS place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL,
       o.callback_id IS NOT NULL OR EXISTS (SELECT 1 FROM event_bus_sinks s
                                             WHERE strpos(s.name, '@') > 1)
  FROM channel_outbox o
 WHERE o.id = :outbox_id AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id;

-- name: insert_item_receipts
INSERT INTO item_receipts (outbox_id, id, matched_by, matched_at)
SELECT outbox_id, id, matched_by, :now
  FROM window(outbox_id uuid, id uuid, matched_by text) AS item;

-- name: latest_keywords
-- What each of these senders asked for last, STOP or START. Nothing happened after it was reported: a
-- provider whose clock is ahead would otherwise let an old START outweigh a STOP.
-- postgres:
SELECT item.place, r.keyword
  FROM window(place int, submission_target text, sender text) AS item
  JOIN LATERAL (
    SELECT r.keyword FROM receipts r
     WHERE r.workspace_id = :workspace_id AND r.sender = item.sender AND r.tenant_id = :tenant_id
       AND r.submission_target = item.submission_target AND r.keyword IN ('stop', 'start')
     ORDER BY least(coalesce(r.occurred_at, r.received_at), r.received_at) DESC, r.id DESC
     LIMIT 1) r ON true;
-- sqlite:
SELECT place, keyword FROM (
  SELECT item.place AS place, r.keyword,
         row_number() OVER (PARTITION BY item.place
                            ORDER BY least(coalesce(r.occurred_at, r.received_at), r.received_at) DESC,
                                     r.id DESC) AS newness
    FROM window(place int, submission_target text, sender text) AS item
    JOIN receipts r ON r.workspace_id = :workspace_id AND r.sender = item.sender
   WHERE r.tenant_id = :tenant_id AND r.submission_target = item.submission_target
     AND r.keyword IN ('stop', 'start'))
 WHERE newness = 1;

-- name: receipts_page
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id < :before
   AND (r.submission_target = :submission_target OR :submission_target::text IS NULL)
   AND (i.outbox_id IS NOT NULL OR NOT :only_matched)
   AND NOT EXISTS (SELECT 1 FROM passed_receipts p
                    WHERE p.workspace_id = r.workspace_id AND p.id = r.id)
 ORDER BY r.id DESC LIMIT :most;

-- name: unmatched_receipts_page
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       NULL, NULL, w.looks, w.look_at
  FROM waiting_receipts w
  {postgres: JOIN LATERAL (SELECT * FROM receipts r
                            WHERE r.workspace_id = w.workspace_id AND r.id >= w.id
                            ORDER BY r.id LIMIT 1) r ON r.id = w.id}
  {sqlite: JOIN receipts r ON r.workspace_id = w.workspace_id AND r.id = w.id}
 WHERE w.workspace_id = :workspace_id AND w.id < :before AND w.looks > 0
   AND r.tenant_id = :tenant_id
   AND NOT EXISTS (SELECT 1 FROM passed_receipts p
                    WHERE p.workspace_id = r.workspace_id AND p.id = r.id)
   AND (w.submission_target = :submission_target OR :submission_target::text IS NULL)
 ORDER BY w.id DESC LIMIT :most;

-- name: receipt_by_id
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id = :id
   AND NOT EXISTS (SELECT 1 FROM passed_receipts p
                    WHERE p.workspace_id = r.workspace_id AND p.id = r.id);

-- name: receipts_of_item
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, NULL, NULL
  FROM item_receipts i
  {postgres: JOIN LATERAL (SELECT * FROM receipts r
                            WHERE r.workspace_id = :workspace_id AND r.id >= i.id
                            ORDER BY r.id LIMIT 1) r ON r.id = i.id}
  {sqlite: JOIN receipts r ON r.workspace_id = :workspace_id AND r.id = i.id}
 WHERE i.outbox_id = :outbox_id AND r.tenant_id = :tenant_id
 ORDER BY i.id LIMIT :most;

-- The way back: receipts come in, find their items, and are folded into what became of those.

-- name: insert_receipts
-- Those that are new to their target.
INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
                      provider_message_id, permanent, reason, sender, text, keyword, occurred_at,
                      received_at)
SELECT id, :tenant_id, :workspace_id, submission_target, receipt_id, event, reference,
       provider_message_id, permanent, reason, sender, text, keyword, occurred_at, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, submission_target text, receipt_id text, event text, reference text,
             provider_message_id text, permanent boolean, reason text, sender text, text text,
             keyword text, occurred_at timestamptz)
ON CONFLICT (workspace_id, submission_target, receipt_id) DO NOTHING
RETURNING id::text;

-- name: insert_waiting_receipts
INSERT INTO waiting_receipts (id, workspace_id, submission_target, urgent, looks, look_at)
SELECT id, workspace_id, submission_target, urgent, looks, look_at
  FROM json_to_recordset(:window)
    AS item (id uuid, workspace_id uuid, submission_target text, urgent boolean, looks int,
             look_at timestamptz);

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

-- name: claimed_receipts
SELECT r.id::text, r.tenant_id::text, r.workspace_id::text, r.submission_target, r.receipt_id,
       r.event, r.reference, r.provider_message_id, r.permanent, r.reason, r.sender, r.keyword,
       coalesce(r.occurred_at, r.received_at) AS effective_at, item.looks, item.urgent
  FROM json_to_recordset(:window) AS item (id uuid, workspace_id uuid, looks int, urgent boolean)
  JOIN LATERAL (SELECT * FROM receipts r
                 WHERE r.workspace_id = item.workspace_id AND r.id = item.id LIMIT 1) r ON true;

-- name: claim_receipt
-- One that matched nothing so far, for somebody who knows what it is about.
DELETE FROM waiting_receipts WHERE id = :id AND workspace_id = :workspace_id
RETURNING id::text, workspace_id::text, looks, urgent;

-- name: next_receipt_due
SELECT least((SELECT min(look_at) FROM waiting_receipts WHERE look_at IS NOT NULL AND urgent),
             (SELECT min(look_at) FROM waiting_receipts WHERE look_at IS NOT NULL AND NOT urgent))
         AS look_at;

-- name: items_of_references
-- Of the same workspace, and last called at the same target.
SELECT item.place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM json_to_recordset(:window)
    AS item (place int, tenant_id uuid, workspace_id uuid, submission_target text, key text)
  JOIN LATERAL (
    SELECT o.* FROM channel_outbox o
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE o.tenant_id = item.tenant_id AND o.workspace_id = item.workspace_id
       AND o.idempotency_key = decode(item.key, 'hex')
       AND coalesce(c.submission_target, o.submission_target) = item.submission_target
     LIMIT 1) o ON true;

-- name: items_of_provider_messages
-- Where a provider gave two items the same id, it says of neither which one is meant.
SELECT item.place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM json_to_recordset(:window)
    AS item (place int, tenant_id uuid, workspace_id uuid, submission_target text, message_id text)
  JOIN LATERAL (
    SELECT o.* FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.message_id
       AND o.tenant_id = item.tenant_id AND o.workspace_id = item.workspace_id
       AND coalesce(c.submission_target, o.submission_target) = item.submission_target
     LIMIT 2) o ON true;

-- name: item_of_receipt
-- The item that somebody says a receipt is about.
SELECT 0 AS place, o.id::text, o.run_id::text, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM channel_outbox o
 WHERE o.id = :outbox_id AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id;

-- name: insert_item_receipts
INSERT INTO item_receipts (outbox_id, id, matched_by, matched_at)
SELECT outbox_id, id, matched_by, :now
  FROM json_to_recordset(:window) AS item (outbox_id uuid, id uuid, matched_by text);

-- name: fold_deliveries
-- The stronger one stays, whichever came first. Only what this changed is returned.
INSERT INTO deliveries AS d (outbox_id, run_id, state, permanent, reason, occurred_at, rank,
                             receipt_id)
SELECT outbox_id, run_id, state, permanent, reason, occurred_at, rank, receipt_id
  FROM json_to_recordset(:window)
    AS item (outbox_id uuid, run_id uuid, state text, permanent boolean, reason text,
             occurred_at timestamptz, rank int, receipt_id text)
ON CONFLICT (outbox_id) DO UPDATE
   SET previous_state = d.state, previous_run_id = d.run_id, run_id = excluded.run_id,
       state = excluded.state, permanent = excluded.permanent, reason = excluded.reason,
       occurred_at = excluded.occurred_at, rank = excluded.rank, receipt_id = excluded.receipt_id
 WHERE (excluded.rank, excluded.occurred_at, excluded.receipt_id COLLATE "C")
       > (d.rank, d.occurred_at, d.receipt_id COLLATE "C")
RETURNING outbox_id::text, run_id::text, state, previous_run_id::text, previous_state;

-- name: count_deliveries
INSERT INTO run_deliveries AS r (run_id, state, items)
SELECT run_id, state, items FROM json_to_recordset(:window) AS item (run_id uuid, state text, items int)
ON CONFLICT (run_id, state) DO UPDATE SET items = r.items + excluded.items;

-- name: tally_targets
INSERT INTO target_tallies AS t (workspace_id, submission_target, hour_at, sent, reported, bounced,
                                 complained)
SELECT workspace_id, submission_target, hour_at, sent, reported, bounced, complained
  FROM json_to_recordset(:window)
    AS item (workspace_id uuid, submission_target text, hour_at timestamptz, sent int,
             reported int, bounced int, complained int)
ON CONFLICT (hour_at, workspace_id, submission_target) DO UPDATE
   SET sent = t.sent + excluded.sent, reported = t.reported + excluded.reported,
       bounced = t.bounced + excluded.bounced, complained = t.complained + excluded.complained;

-- name: target_rates
-- What became of each target's messages since that hour, where anything bounced or was complained of.
SELECT w.tenant_id::text, t.workspace_id::text, t.submission_target, sum(t.sent)::int,
       sum(t.reported)::int, sum(t.bounced)::int, sum(t.complained)::int, min(t.hour_at) AS since_at
  FROM target_tallies t JOIN workspaces w ON w.id = t.workspace_id
 WHERE t.hour_at >= :since
 GROUP BY w.tenant_id, t.workspace_id, t.submission_target
HAVING sum(t.bounced) > 0 OR sum(t.complained) > 0
 LIMIT :most;

-- name: forget_target_tallies
DELETE FROM target_tallies WHERE hour_at < :before;

-- name: insert_receipt_suppressions
-- A bounce or complaint replaces what STOP said, because START does not lift it.
INSERT INTO suppressions AS s (tenant_id, workspace_id, channel, address, topic, reason, source,
                               evidence, includes_transactional, created_at)
SELECT :tenant_id, :workspace_id, channel, lower(address), '', reason, source, evidence, true, :now
  FROM json_to_recordset(:window)
    AS item (channel text, address text, reason text, source text, evidence text)
ON CONFLICT (tenant_id, workspace_id, channel, address, topic) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, evidence = excluded.evidence,
       includes_transactional = true, created_at = excluded.created_at
 WHERE NOT s.includes_transactional OR (s.source = 'stop' AND excluded.source <> 'stop')
RETURNING channel, address, source;

-- name: lift_stopped
-- Only what a STOP made: nobody bounces less because they write START.
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, lower(address) FROM json_to_recordset(:window)
                                AS item (channel text, address text))
   AND source = 'stop'
RETURNING channel, address;

-- name: latest_keywords
-- What each of these senders asked for last, STOP or START.
SELECT DISTINCT ON (item.place) item.place, r.keyword
  FROM json_to_recordset(:window) AS item (place int, submission_target text, sender text)
  JOIN receipts r ON r.workspace_id = :workspace_id AND r.sender = item.sender
 WHERE r.tenant_id = :tenant_id AND r.submission_target = item.submission_target
   AND r.keyword IN ('stop', 'start')
 ORDER BY item.place, coalesce(r.occurred_at, r.received_at) DESC, r.id DESC;

-- name: receipts_page
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id < :before
   AND (r.submission_target = :submission_target OR :submission_target::text IS NULL)
   AND (i.outbox_id IS NOT NULL OR NOT :only_matched)
 ORDER BY r.id DESC LIMIT :most;

-- name: unmatched_receipts_page
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       NULL, NULL, w.looks, w.look_at
  FROM waiting_receipts w JOIN receipts r ON r.workspace_id = w.workspace_id AND r.id = w.id
 WHERE w.workspace_id = :workspace_id AND w.id < :before AND w.looks > 0
   AND r.tenant_id = :tenant_id
   AND (w.submission_target = :submission_target OR :submission_target::text IS NULL)
 ORDER BY w.id DESC LIMIT :most;

-- name: receipt_by_id
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id = :id;

-- name: receipts_of_item
SELECT r.id::text, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id::text, i.matched_by, NULL, NULL
  FROM item_receipts i JOIN receipts r ON r.workspace_id = :workspace_id AND r.id = i.id
 WHERE i.outbox_id = :outbox_id AND r.tenant_id = :tenant_id
 ORDER BY i.id LIMIT :most;

-- name: deliveries_of_items
SELECT outbox_id::text, state, permanent, reason, occurred_at
  FROM deliveries
 WHERE outbox_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: deliveries_of_runs
SELECT run_id::text, state, items FROM run_deliveries
 WHERE run_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND items <> 0
 ORDER BY run_deliveries.run_id, state;

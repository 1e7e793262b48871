-- The way back: receipts come in, find their items, and are folded into what became of those.

-- name: insert_receipts
-- Those that are new to their target.
INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
                      provider_message_id, permanent, reason, sender, text, keyword, occurred_at,
                      received_at)
SELECT value ->> 0, :tenant_id, :workspace_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
       :now
  FROM json_each(:window) WHERE true
ON CONFLICT (workspace_id, submission_target, receipt_id) DO NOTHING
RETURNING id;

-- name: insert_waiting_receipts
INSERT INTO waiting_receipts (id, workspace_id, submission_target, urgent, looks, look_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
  FROM json_each(:window);

-- name: count_sought_receipts
-- Of one target, those that were looked for in vain and are looked for again; no more are counted.
SELECT count(*) FROM (
  SELECT 1 FROM waiting_receipts
   WHERE workspace_id = :workspace_id AND submission_target = :submission_target
     AND looks > 0 AND look_at IS NOT NULL
   LIMIT :most) counted;

-- name: claim_receipts
-- Those that are due, the oldest first and the urgent before the others. They leave the queue with
-- this transaction: whoever dies in it has changed nothing, and what found no item is put back.
DELETE FROM waiting_receipts
 WHERE id IN (SELECT id FROM (SELECT id FROM waiting_receipts WHERE urgent AND look_at <= :now
                               ORDER BY look_at, id LIMIT :most_urgent)
               UNION ALL
              SELECT id FROM (SELECT id FROM waiting_receipts WHERE NOT urgent AND look_at <= :now
                               ORDER BY look_at, id LIMIT :most_others))
RETURNING id, workspace_id, looks, urgent;

-- name: claimed_receipts
SELECT r.id, r.tenant_id, r.workspace_id, r.submission_target, r.receipt_id,
       r.event, r.reference, r.provider_message_id, r.permanent, r.reason, r.sender, r.keyword,
       coalesce(r.occurred_at, r.received_at) AS effective_at, item.value ->> 2, item.value ->> 3
  FROM json_each(:window) item
  JOIN receipts r ON r.workspace_id = item.value ->> 1 AND r.id = item.value ->> 0;

-- name: claim_receipt
-- One that matched nothing so far, for somebody who knows what it is about.
DELETE FROM waiting_receipts WHERE id = :id AND workspace_id = :workspace_id
RETURNING id, workspace_id, looks, urgent;

-- name: next_receipt_due
SELECT min(look_at) AS look_at FROM (
  SELECT min(look_at) AS look_at FROM waiting_receipts WHERE look_at IS NOT NULL AND urgent
   UNION ALL
  SELECT min(look_at) FROM waiting_receipts WHERE look_at IS NOT NULL AND NOT urgent);

-- name: items_of_references
-- Of the same workspace, and last called at the same target.
SELECT item.value ->> 0, o.id, o.run_id, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM json_each(:window) item
  JOIN channel_outbox o ON o.tenant_id = item.value ->> 1 AND o.workspace_id = item.value ->> 2
                       AND o.idempotency_key = unhex(item.value ->> 4)
  LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
 WHERE coalesce(c.submission_target, o.submission_target) = item.value ->> 3;

-- name: items_of_provider_messages
-- Where a provider gave two items the same id, it says of neither which one is meant.
SELECT item.value ->> 0, o.id, o.run_id, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM json_each(:window) item
  JOIN channel_outbox o ON o.id IN (
    SELECT o.id FROM provider_messages m
      JOIN channel_outbox o ON o.id = m.outbox_id
      LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
     WHERE m.provider_message_id = item.value ->> 4
       AND o.tenant_id = item.value ->> 1 AND o.workspace_id = item.value ->> 2
       AND coalesce(c.submission_target, o.submission_target) = item.value ->> 3
     LIMIT 2);

-- name: item_of_receipt
-- The item that somebody says a receipt is about.
SELECT 0 AS place, o.id, o.run_id, o.channel, o.recipient_address, o.status,
       o.doubted_at IS NOT NULL
  FROM channel_outbox o
 WHERE o.id = :outbox_id AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id;

-- name: insert_item_receipts
INSERT INTO item_receipts (outbox_id, id, matched_by, matched_at)
SELECT value ->> 0, value ->> 1, value ->> 2, :now FROM json_each(:window);

-- name: fold_deliveries
-- The stronger one stays, whichever came first. Only what this changed is returned.
INSERT INTO deliveries AS d (outbox_id, run_id, state, permanent, reason, occurred_at, rank,
                             receipt_id)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7
  FROM json_each(:window) WHERE true
ON CONFLICT (outbox_id) DO UPDATE
   SET previous_state = d.state, previous_run_id = d.run_id, run_id = excluded.run_id,
       state = excluded.state, permanent = excluded.permanent, reason = excluded.reason,
       occurred_at = excluded.occurred_at, rank = excluded.rank, receipt_id = excluded.receipt_id
 WHERE (excluded.rank, excluded.occurred_at, excluded.receipt_id)
       > (d.rank, d.occurred_at, d.receipt_id)
RETURNING outbox_id, run_id, state, previous_run_id, previous_state;

-- name: count_deliveries
INSERT INTO run_deliveries AS r (run_id, state, items)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:window) WHERE true
ON CONFLICT (run_id, state) DO UPDATE SET items = r.items + excluded.items;

-- name: tally_targets
INSERT INTO target_tallies AS t (workspace_id, submission_target, hour_at, sent, reported, bounced,
                                 complained)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
  FROM json_each(:window) WHERE true
ON CONFLICT (hour_at, workspace_id, submission_target) DO UPDATE
   SET sent = t.sent + excluded.sent, reported = t.reported + excluded.reported,
       bounced = t.bounced + excluded.bounced, complained = t.complained + excluded.complained;

-- name: target_rates
-- What became of each target's messages since that hour, where anything bounced or was complained of.
SELECT w.tenant_id, t.workspace_id, t.submission_target, sum(t.sent), sum(t.reported),
       sum(t.bounced), sum(t.complained), min(t.hour_at) AS since_at
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
SELECT :tenant_id, :workspace_id, value ->> 0, lower(value ->> 1), '', value ->> 2, value ->> 3,
       value ->> 4, 1, :now
  FROM json_each(:window) WHERE true
ON CONFLICT (tenant_id, workspace_id, channel, address, topic) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, evidence = excluded.evidence,
       includes_transactional = 1, created_at = excluded.created_at
 WHERE NOT s.includes_transactional OR (s.source = 'stop' AND excluded.source <> 'stop')
RETURNING channel, address, source;

-- name: lift_stopped
-- Only what a STOP made: nobody bounces less because they write START.
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT value ->> 0, lower(value ->> 1) FROM json_each(:window))
   AND source = 'stop'
RETURNING channel, address;

-- name: latest_keywords
-- What each of these senders asked for last, STOP or START.
SELECT place, keyword FROM (
  SELECT item.value ->> 0 AS place, r.keyword,
         row_number() OVER (PARTITION BY item.value ->> 0
                            ORDER BY coalesce(r.occurred_at, r.received_at) DESC, r.id DESC) AS newness
    FROM json_each(:window) item
    JOIN receipts r ON r.workspace_id = :workspace_id AND r.sender = item.value ->> 2
   WHERE r.tenant_id = :tenant_id AND r.submission_target = item.value ->> 1
     AND r.keyword IN ('stop', 'start'))
 WHERE newness = 1;

-- name: receipts_page
SELECT r.id, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id < :before
   AND (r.submission_target = :submission_target OR :submission_target IS NULL)
   AND (i.outbox_id IS NOT NULL OR NOT :only_matched)
 ORDER BY r.id DESC LIMIT :most;

-- name: unmatched_receipts_page
SELECT r.id, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       NULL, NULL, w.looks, w.look_at
  FROM waiting_receipts w JOIN receipts r ON r.workspace_id = w.workspace_id AND r.id = w.id
 WHERE w.workspace_id = :workspace_id AND w.id < :before AND w.looks > 0
   AND r.tenant_id = :tenant_id
   AND (w.submission_target = :submission_target OR :submission_target IS NULL)
 ORDER BY w.id DESC LIMIT :most;

-- name: receipt_by_id
SELECT r.id, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id, i.matched_by, w.looks, w.look_at
  FROM receipts r LEFT JOIN item_receipts i ON i.id = r.id LEFT JOIN waiting_receipts w ON w.id = r.id
 WHERE r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id AND r.id = :id;

-- name: receipts_of_item
SELECT r.id, r.submission_target, r.receipt_id, r.event, r.reference, r.provider_message_id,
       r.permanent, r.reason, r.sender, r.text, r.keyword, r.occurred_at, r.received_at,
       i.outbox_id, i.matched_by, NULL, NULL
  FROM item_receipts i JOIN receipts r ON r.workspace_id = :workspace_id AND r.id = i.id
 WHERE i.outbox_id = :outbox_id AND r.tenant_id = :tenant_id
 ORDER BY i.id LIMIT :most;

-- name: deliveries_of_items
SELECT outbox_id, state, permanent, reason, occurred_at
  FROM deliveries
 WHERE outbox_id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: deliveries_of_runs
SELECT run_id, state, items FROM run_deliveries
 WHERE run_id IN (SELECT value ->> 0 FROM json_each(:window)) AND items <> 0
 ORDER BY run_id, state;

-- Plain receipts: they name a message that has ended, and say nothing that anybody has to act on.

-- name: match_plain_receipts
-- Of the oldest that are due, those that are plain: they leave the queue, have their items, and are folded
-- into their deliveries. Returned is what this changed, summed up, and how many others it has met. SQLite
-- has no statement that writes three tables: there, no receipt is plain. A full join is made by hash or in
-- order, however few rows a plan expects; in a nested loop, each would be compared with each. And a receipt
-- is looked up as the first from its id on: that order is the primary key's alone, while by equality a plan
-- made when there were few receipts may take another index of the workspace, and read all of it.
-- postgres:
WITH met AS MATERIALIZED (
  SELECT ctid AS place, id, workspace_id FROM waiting_receipts WHERE NOT urgent AND look_at <= :now
   ORDER BY look_at, id LIMIT :most FOR UPDATE SKIP LOCKED
), plain AS MATERIALIZED (
  SELECT met.place, r.id, r.tenant_id, r.workspace_id, r.submission_target, r.receipt_id, r.permanent,
         r.reason, coalesce(r.occurred_at, r.received_at) AS effective_at, item.state, item.rank,
         o.id AS outbox_id, CASE WHEN o.status IN list(:successes) THEN o.run_id END AS run_id
    FROM met
    JOIN LATERAL (SELECT * FROM receipts r
                   WHERE r.workspace_id = met.workspace_id AND r.id >= met.id
                   ORDER BY r.id LIMIT 1) r ON r.id = met.id
    JOIN LATERAL (SELECT item.state, item.rank
                    FROM window(event text, permanent boolean, state text, rank int) AS item
                   WHERE item.event = r.event AND item.permanent = r.permanent
                   LIMIT 1) item ON true
    JOIN LATERAL (
      SELECT o.id, o.status, o.run_id, o.doubted_at, o.callback_id FROM channel_outbox o
       WHERE o.tenant_id = r.tenant_id AND o.workspace_id = r.workspace_id
         AND o.idempotency_key = CASE WHEN length(r.reference) = 64
                                       AND translate(r.reference, '0123456789abcdefABCDEF', '') = ''
                                      THEN decode(r.reference, 'hex') END
         AND r.submission_target = CASE WHEN o.attempt_contract_id IS NULL THEN o.submission_target
           ELSE (SELECT c.submission_target FROM contract_snapshots c
                  WHERE c.id = o.attempt_contract_id) END
       LIMIT 1) o ON true
   WHERE r.keyword IS NULL AND r.submission_target NOT IN list(:shared)
     AND o.status <> 'queued' AND o.doubted_at IS NULL AND o.callback_id IS NULL
     AND NOT EXISTS (SELECT 1 FROM event_bus_sinks s WHERE strpos(s.name, '@') > 1)
), taken AS (
  DELETE FROM waiting_receipts WHERE ctid = ANY (ARRAY(SELECT place FROM plain))
), settled AS (
  INSERT INTO item_receipts (outbox_id, id, matched_by, matched_at)
  SELECT outbox_id, id, 'reference', :now FROM plain
), strongest AS MATERIALIZED (
  SELECT DISTINCT ON (outbox_id) *
    FROM plain
   ORDER BY outbox_id, rank DESC, effective_at DESC, receipt_id COLLATE "C" DESC
), changed AS (
  INSERT INTO deliveries AS d (outbox_id, run_id, state, permanent, reason, occurred_at, rank,
                               receipt_id)
  SELECT outbox_id, run_id, state, permanent, reason, effective_at, rank, receipt_id
    FROM strongest ORDER BY outbox_id
  ON CONFLICT (outbox_id) DO UPDATE
     SET previous_state = d.state, previous_run_id = d.run_id, run_id = excluded.run_id,
         state = excluded.state, permanent = excluded.permanent, reason = excluded.reason,
         occurred_at = excluded.occurred_at, rank = excluded.rank, receipt_id = excluded.receipt_id
   WHERE (excluded.rank, excluded.occurred_at, excluded.receipt_id COLLATE "C")
         > (d.rank, d.occurred_at, d.receipt_id COLLATE "C")
  RETURNING outbox_id, run_id, state, previous_run_id, previous_state, 1 AS one
)
SELECT seen.met::int, seen.plain::int, moved.tenant_id::text, moved.workspace_id::text,
       moved.submission_target, moved.run_id::text, moved.state, moved.previous_run_id::text,
       moved.previous_state, moved.items::int
  FROM (SELECT (SELECT count(*) FROM met) AS met, (SELECT count(*) FROM plain) AS plain) seen
  LEFT JOIN (
    SELECT s.tenant_id, s.workspace_id, s.submission_target, c.run_id, c.state, c.previous_run_id,
           c.previous_state, sum(c.one) AS items
      FROM strongest s FULL JOIN changed c ON c.outbox_id = s.outbox_id
     GROUP BY 1, 2, 3, 4, 5, 6, 7
    HAVING sum(c.one) > 0) moved ON true;
-- sqlite:
SELECT :most, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0
 WHERE :now IS NOT NULL AND :shared IS NOT NULL AND :successes IS NOT NULL
   AND (SELECT count(*) FROM window(event text, permanent boolean, state text, rank int) AS item) > 0;

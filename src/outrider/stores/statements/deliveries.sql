-- What receipts add up to: per item, per run, and per target and hour.

-- name: fold_deliveries
-- The stronger one stays, whichever came first. Only what this changed is returned.
INSERT INTO deliveries AS d (outbox_id, run_id, state, permanent, reason, occurred_at, rank,
                             receipt_id)
SELECT outbox_id, run_id, state, permanent, reason, occurred_at, rank, receipt_id
  FROM window(outbox_id uuid, run_id uuid, state text, permanent boolean, reason
              text, occurred_at timestamptz, rank int, receipt_id text) AS item WHERE true
ON CONFLICT (outbox_id) DO UPDATE
   SET previous_state = d.state, previous_run_id = d.run_id, run_id = excluded.run_id,
       state = excluded.state, permanent = excluded.permanent, reason = excluded.reason,
       occurred_at = excluded.occurred_at, rank = excluded.rank, receipt_id = excluded.receipt_id
 WHERE (excluded.rank, excluded.occurred_at, excluded.receipt_id {postgres: COLLATE "C"})
       > (d.rank, d.occurred_at, d.receipt_id {postgres: COLLATE "C"})
RETURNING outbox_id::text, run_id::text, state, previous_run_id::text, previous_state;

-- name: count_deliveries
INSERT INTO run_deliveries AS r (run_id, state, items)
SELECT run_id, state, items FROM window(run_id uuid, state text, items int) AS item WHERE true
ON CONFLICT (run_id, state) DO UPDATE SET items = r.items + excluded.items;

-- name: tally_targets
INSERT INTO target_tallies AS t (workspace_id, submission_target, hour_at, sent, reported, bounced,
                                 complained)
SELECT workspace_id, submission_target, hour_at, sent, reported, bounced, complained
  FROM window(workspace_id uuid, submission_target text, hour_at timestamptz,
              sent int, reported int, bounced int, complained int) AS item WHERE true
ON CONFLICT (hour_at, workspace_id, submission_target) DO UPDATE
   SET sent = t.sent + excluded.sent, reported = t.reported + excluded.reported,
       bounced = t.bounced + excluded.bounced, complained = t.complained + excluded.complained;

-- name: target_rates
-- What became of each target's messages since that hour, where anything bounced or was complained of.
SELECT (SELECT w.tenant_id FROM workspaces w WHERE w.id = t.workspace_id)::text,
       t.workspace_id::text, t.submission_target, sum(t.sent)::int, sum(t.reported)::int,
       sum(t.bounced)::int, sum(t.complained)::int, min(t.hour_at) AS since_at
  FROM target_tallies t
 WHERE t.hour_at >= :since
 GROUP BY t.workspace_id, t.submission_target
HAVING sum(t.bounced) > 0 OR sum(t.complained) > 0
 LIMIT :most;

-- name: forget_target_tallies
DELETE FROM target_tallies WHERE hour_at < :before;

-- name: deliveries_of_items
SELECT outbox_id::text, state, permanent, reason, occurred_at
  FROM deliveries
 WHERE outbox_id IN window(id uuid);

-- name: deliveries_of_runs
SELECT run_id::text, state, items FROM run_deliveries
 WHERE run_id IN window(id uuid)
   AND items <> 0
 ORDER BY run_deliveries.run_id, state;

-- The log of runs, in SQLite's dialect: appended to in one place, read in the order of run_seq.

-- name: append_run_events
-- The append authority: a counter on the run's row. What the log has already takes no number.
-- Two statements, because SQLite has none that both updates and inserts.
UPDATE campaign_runs
   SET last_seq = last_seq + (
         SELECT count(*) FROM json_each(:window) item
          WHERE NOT EXISTS (SELECT 1 FROM run_events e
                             WHERE e.run_id = :run_id
                               AND e.idempotency_key = unhex(item.value ->> 0)))
 WHERE id = :run_id;
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at,
                        contract_version)
SELECT :run_id, counter.last_seq - count(*) OVER () + row_number() OVER (ORDER BY item.key),
       item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4, item.value ->> 5,
       :plan_version, unhex(item.value ->> 0), item.value ->> 6, item.value ->> 7, item.value ->> 8,
       :contract_version
  FROM json_each(:window) item CROSS JOIN campaign_runs counter
 WHERE counter.id = :run_id
   AND NOT EXISTS (SELECT 1 FROM run_events e
                    WHERE e.run_id = :run_id AND e.idempotency_key = unhex(item.value ->> 0))
ON CONFLICT (run_id, idempotency_key) DO NOTHING
RETURNING run_seq, type, step_id;

-- name: run_exists
SELECT 1 FROM campaign_runs WHERE id = :run_id;

-- name: run_events_after
SELECT run_id, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, hex(idempotency_key), contract_version
  FROM run_events
 WHERE run_id = :run_id AND run_seq > :after AND run_seq <= :until
 ORDER BY run_seq LIMIT :most;

-- name: signal_of_run
-- The decision on a signal, if there was one.
SELECT run_seq, type, payload, step_id FROM run_events
 WHERE run_id = :run_id AND signal_id = :signal_id;

-- name: next_signal
UPDATE campaign_runs SET signals = signals + 1 WHERE id = :run_id RETURNING signals;

-- name: raise_alert
-- An alert that stands already is counted instead.
INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message, detail,
                    raised_at, last_seen_at)
VALUES (:id, :tenant_id, :workspace_id, :code, :severity, :subject, :message, :detail, :now, :now)
ON CONFLICT (code, subject, workspace_id) WHERE resolved_at IS NULL DO UPDATE
   SET times = alerts.times + 1, last_seen_at = excluded.last_seen_at,
       message = excluded.message, detail = excluded.detail
RETURNING times;

-- name: resolve_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :subject AND resolved_at IS NULL
RETURNING id;

-- name: resolve_workspace_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :subject AND workspace_id = :workspace_id
   AND resolved_at IS NULL
RETURNING id;

-- name: alerts_page
SELECT id, code, severity, subject, message, detail, times, raised_at, last_seen_at, resolved_at
  FROM alerts
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (:only_standing = 0 OR resolved_at IS NULL)
 ORDER BY id DESC LIMIT :most;

-- name: count_standing_alerts
SELECT code, count(*) FROM alerts WHERE resolved_at IS NULL GROUP BY code;

-- name: run_ending
-- What the log says of the status that the run's row has.
SELECT e.type, e.payload FROM campaign_runs r
  JOIN run_events e ON e.run_id = r.id AND e.run_seq = r.status_seq
 WHERE r.id = :run_id;

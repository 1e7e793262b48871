-- The log of runs, in Postgres's dialect: appended to in one place, read in the order of run_seq.

-- name: next_run_seqs
-- The append authority: a counter on the run's row, which stays locked until the commit. What the
-- log has already takes no number.
UPDATE campaign_runs
   SET last_seq = last_seq + (
         SELECT count(*) FROM json_to_recordset(:window) AS item (key text)
          WHERE NOT EXISTS (SELECT 1 FROM run_events e
                             WHERE e.run_id = :run_id
                               AND e.idempotency_key = decode(item.key, 'hex')))
 WHERE id = :run_id
RETURNING last_seq;

-- name: insert_run_events
WITH item AS (
  SELECT row_number() OVER () AS place, decode(key, 'hex') AS idempotency_key, type, emitter,
         step_id, logical_attempt, engine_attempt, signal_id, payload::json AS payload, occurred_at
    FROM json_to_recordset(:window)
      AS given (key text, type text, emitter text, step_id text, logical_attempt int,
                engine_attempt int, signal_id text, payload text, occurred_at timestamptz)
)
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at)
SELECT :run_id, :last_seq::bigint - count(*) OVER () + row_number() OVER (ORDER BY place), type,
       emitter, step_id, logical_attempt, engine_attempt, :plan_version, idempotency_key,
       signal_id, payload, occurred_at
  FROM item
 WHERE NOT EXISTS (SELECT 1 FROM run_events e
                    WHERE e.run_id = :run_id AND e.idempotency_key = item.idempotency_key)
ON CONFLICT (run_id, idempotency_key) DO NOTHING
RETURNING run_seq, type, step_id;

-- name: insert_bus_events
-- For every sink there is; where there is none, nothing.
INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
SELECT s.name, :run_id, item.run_seq, :now, :now
  FROM event_bus_sinks s
 CROSS JOIN json_to_recordset(:window) AS item (run_seq bigint)
ON CONFLICT DO NOTHING;

-- name: run_events_after
SELECT run_id::text, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, encode(idempotency_key, 'hex')
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
RETURNING id::text;

-- name: alerts_page
SELECT id::text, code, severity, subject, message, detail, times, raised_at, last_seen_at,
       resolved_at
  FROM alerts
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (NOT :only_standing::boolean OR resolved_at IS NULL)
 ORDER BY alerts.id DESC LIMIT :most;

-- name: count_standing_alerts
SELECT code, count(*) FROM alerts WHERE resolved_at IS NULL GROUP BY code;

-- The log of runs, in Postgres's dialect: appended to in one place, read in the order of run_seq.

-- name: append_run_events
-- The append authority: a counter on the run's row, which stays locked until the commit. What the
-- log has already takes no number; it is looked up key by key, however long the log is.
WITH known AS MATERIALIZED (
  SELECT e.idempotency_key FROM run_events e
   WHERE e.run_id = :run_id
     AND e.idempotency_key = ANY (ARRAY(
           SELECT decode(key, 'hex') FROM json_to_recordset(:window) AS item (key text)))
), fresh AS MATERIALIZED (
  SELECT given.*, row_number() OVER (ORDER BY place) AS nth, count(*) OVER () AS total
    FROM ROWS FROM (
           json_to_recordset(:window)
             AS (key text, type text, emitter text, step_id text, logical_attempt int,
                 engine_attempt int, signal_id text, payload text, occurred_at timestamptz))
         WITH ORDINALITY
           AS given (key, type, emitter, step_id, logical_attempt, engine_attempt, signal_id,
                     payload, occurred_at, place)
   WHERE NOT EXISTS (SELECT 1 FROM known
                      WHERE known.idempotency_key = decode(given.key, 'hex'))
), counter AS (
  UPDATE campaign_runs SET last_seq = last_seq + (SELECT count(*) FROM fresh)
   WHERE id = :run_id
  RETURNING last_seq
)
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at,
                        contract_version)
SELECT :run_id, counter.last_seq - total + nth, type, emitter, step_id, logical_attempt,
       engine_attempt, :plan_version, decode(key, 'hex'), signal_id, payload::json, occurred_at,
       :contract_version
  FROM fresh CROSS JOIN counter
ON CONFLICT (run_id, idempotency_key) DO NOTHING
RETURNING run_seq, type, step_id;

-- name: run_exists
SELECT 1 FROM campaign_runs WHERE id = :run_id;

-- name: run_events_after
SELECT run_id::text, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, encode(idempotency_key, 'hex'), contract_version
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

-- name: resolve_workspace_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :subject AND workspace_id::text = :workspace_id
   AND resolved_at IS NULL
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

-- name: run_ending
-- What the log says of the status that the run's row has.
SELECT e.type, e.payload FROM campaign_runs r
  JOIN run_events e ON e.run_id = r.id AND e.run_seq = r.status_seq
 WHERE r.id = :run_id;

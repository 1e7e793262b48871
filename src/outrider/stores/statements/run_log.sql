-- The log of a run: the one function that appends to it, and reading it in order.

-- name: append_run_events
-- The append authority: a counter on the run's row, which stays locked until the commit. Known
-- events take no number; they are looked up key by key, however long the log is. Two statements in
-- SQLite, which has none that both updates and inserts.
-- postgres:
WITH known AS MATERIALIZED (
  SELECT e.idempotency_key FROM run_events e
   WHERE e.run_id = :run_id
     AND e.idempotency_key = ANY (ARRAY(
           SELECT decode(key, 'hex') FROM window(key text) AS item))
), fresh AS MATERIALIZED (
  SELECT given.*, row_number() OVER (ORDER BY place) AS nth, count(*) OVER () AS total
    FROM window(place int, key text, type text, emitter text, step_id text, logical_attempt int,
                engine_attempt int, signal_id text, payload text, occurred_at timestamptz) AS given
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
-- sqlite:
UPDATE campaign_runs
   SET last_seq = last_seq + (
         SELECT count(*) FROM window(key text) AS item
          WHERE NOT EXISTS (SELECT 1 FROM run_events e
                             WHERE e.run_id = :run_id
                               AND e.idempotency_key = decode(item.key, 'hex')))
 WHERE id = :run_id;
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at,
                        contract_version)
SELECT :run_id, counter.last_seq - count(*) OVER () + row_number() OVER (ORDER BY item.place),
       item.type, item.emitter, item.step_id, item.logical_attempt, item.engine_attempt,
       :plan_version, decode(item.key, 'hex'), item.signal_id, item.payload, item.occurred_at,
       :contract_version
  FROM window(place int, key text, type text, emitter text, step_id text, logical_attempt int,
              engine_attempt int, signal_id text, payload text, occurred_at timestamptz) AS item
 CROSS JOIN campaign_runs counter
 WHERE counter.id = :run_id
   AND NOT EXISTS (SELECT 1 FROM run_events e
                    WHERE e.run_id = :run_id AND e.idempotency_key = decode(item.key, 'hex'))
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

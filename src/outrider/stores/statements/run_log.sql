-- The log of a run: the one function that appends to it, and reading it in order.

-- name: append_run_events
-- The append authority: counter and chain head are on the run's row, which stays locked until the
-- commit; both are read from the locked row, so that the chain never forks. Known events take no
-- number; they are looked up key by key, however long the log is. If another transaction appends
-- the same event at the same moment, the unique key refuses this one, and it is tried again.
-- postgres:
WITH run AS MATERIALIZED (
  SELECT last_seq, chain_head FROM campaign_runs WHERE id = :run_id FOR NO KEY UPDATE
), known AS MATERIALIZED (
  SELECT e.idempotency_key FROM run_events e
   WHERE e.run_id = :run_id
     AND e.idempotency_key = ANY (ARRAY(
           SELECT decode(key, 'hex') FROM window(key text) AS item))
), fresh AS MATERIALIZED (
  SELECT given.*, run.chain_head, run.last_seq + row_number() OVER (ORDER BY place) AS run_seq
    FROM run CROSS JOIN
         window(place int, key text, type text, emitter text, step_id text, logical_attempt int,
                engine_attempt int, signal_id text, payload text, occurred_at timestamptz,
                content text) AS given
   WHERE NOT EXISTS (SELECT 1 FROM known
                      WHERE known.idempotency_key = decode(given.key, 'hex'))
), chained AS MATERIALIZED (
  SELECT fresh.*, outrider_chain(chain_head, run_seq, decode(content, 'hex'))
                    OVER (ORDER BY run_seq) AS chain_hash
    FROM fresh
), counted AS (
  UPDATE campaign_runs r SET last_seq = newest.run_seq, chain_head = newest.chain_hash
    FROM (SELECT run_seq, chain_hash FROM chained ORDER BY run_seq DESC LIMIT 1) newest
   WHERE r.id = :run_id
)
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at,
                        contract_version, chain_hash)
SELECT :run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt, :plan_version,
       decode(key, 'hex'), signal_id, payload::json, occurred_at, :contract_version, chain_hash
  FROM chained
RETURNING run_seq, type, step_id;
-- sqlite:
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
                        plan_version, idempotency_key, signal_id, payload, occurred_at,
                        contract_version, chain_hash)
SELECT :run_id, fresh.run_seq, type, emitter, step_id, logical_attempt, engine_attempt,
       :plan_version, decode(key, 'hex'), signal_id, payload, occurred_at, :contract_version,
       outrider_chain(chain_head, fresh.run_seq, decode(content, 'hex'))
         OVER (ORDER BY fresh.run_seq)
  FROM (SELECT item.*, run.chain_head,
               run.last_seq + row_number() OVER (ORDER BY item.place) AS run_seq
          FROM window(place int, key text, type text, emitter text, step_id text,
                      logical_attempt int, engine_attempt int, signal_id text, payload text,
                      occurred_at timestamptz, content text) AS item
         CROSS JOIN campaign_runs run
         WHERE run.id = :run_id
           AND NOT EXISTS (SELECT 1 FROM run_events e
                            WHERE e.run_id = :run_id
                              AND e.idempotency_key = decode(item.key, 'hex'))) fresh
RETURNING run_seq, type, step_id;
UPDATE campaign_runs SET last_seq = newest.run_seq, chain_head = newest.chain_hash
  FROM (SELECT run_seq, chain_hash FROM run_events
         WHERE run_id = :run_id ORDER BY run_seq DESC LIMIT 1) newest
 WHERE id = :run_id AND newest.run_seq > last_seq;

-- name: run_exists
SELECT 1 FROM campaign_runs WHERE id = :run_id;

-- name: run_events_after
SELECT run_id::text, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, encode(idempotency_key, 'hex'), contract_version
  FROM run_events
 WHERE run_id = :run_id AND run_seq > :after AND run_seq <= :until
 ORDER BY run_seq LIMIT :most;

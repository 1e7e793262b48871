-- The log of runs, in Snowflake's dialect.

-- name: take_run_seqs
-- The append authority: an UPDATE locks the row until the commit, so the next writer waits. It
-- takes a number for every reported event; those already known leave gaps.
UPDATE run_counters SET last_seq = last_seq + :count WHERE run_id = :run_id;

-- name: hold_the_door
-- A writer that finds no counter of its run comes here first, so that two do not both create one.
UPDATE run_counters SET last_seq = last_seq + 1 WHERE run_id = '';

-- name: insert_run_counter
INSERT INTO run_counters (run_id, last_seq)
SELECT :run_id, 0 WHERE NOT EXISTS (SELECT 1 FROM run_counters WHERE run_id = :run_id);

-- name: last_run_seq
-- A separate statement: under READ COMMITTED it sees everything committed before the lock was
-- granted.
SELECT last_seq FROM run_counters WHERE run_id = :run_id;

-- name: merge_run_events
MERGE INTO run_events USING (
  SELECT column1 AS run_seq, column2 AS idempotency_key, column3 AS type, column4 AS emitter,
         column5 AS step_id, column6 AS logical_attempt, column7 AS engine_attempt,
         column8 AS signal_id, column9 AS payload, column10::timestamp_tz AS occurred_at
    FROM VALUES :window) AS told
   ON run_events.run_id = :run_id AND run_events.idempotency_key = told.idempotency_key
 WHEN NOT MATCHED THEN INSERT (run_id, run_seq, type, emitter, step_id, logical_attempt,
                               engine_attempt, plan_version, idempotency_key, signal_id, payload,
                               occurred_at, contract_version)
   VALUES (:run_id, told.run_seq, told.type, told.emitter, told.step_id, told.logical_attempt,
           told.engine_attempt, :plan_version, told.idempotency_key, told.signal_id, told.payload,
           told.occurred_at, :contract_version);

-- name: appended_run_events
SELECT run_seq, type, step_id FROM run_events
 WHERE run_id = :run_id AND run_seq > :after ORDER BY run_seq;

-- name: run_events_after
SELECT run_id, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, idempotency_key, coalesce(contract_version, '1.0')
  FROM run_events WHERE run_id = :run_id AND run_seq > :after ORDER BY run_seq LIMIT :most;

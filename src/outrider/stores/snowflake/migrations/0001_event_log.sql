-- The log of runs in Snowflake. Snowflake notes primary and unique keys and enforces none of them:
-- what keeps sequences and keys unique is the order that `run_counters` gives its writers.

-- The append authority's counter, a row a run. The row without a run is the door at which the
-- first writers of new runs wait for each other.
CREATE TABLE IF NOT EXISTS run_counters (
  run_id varchar NOT NULL PRIMARY KEY,
  last_seq number(38, 0) NOT NULL
);
INSERT INTO run_counters (run_id, last_seq)
SELECT '', 0 WHERE NOT EXISTS (SELECT 1 FROM run_counters WHERE run_id = '');

-- The payload is text: a VARIANT would keep neither the order of its fields nor every number.
CREATE TABLE IF NOT EXISTS run_events (
  run_id varchar NOT NULL,
  run_seq number(38, 0) NOT NULL,
  type varchar NOT NULL,
  emitter varchar NOT NULL,
  step_id varchar,
  logical_attempt number(38, 0) NOT NULL,
  engine_attempt number(38, 0),
  plan_version varchar NOT NULL,
  idempotency_key varchar NOT NULL,
  signal_id varchar,
  payload varchar NOT NULL,
  occurred_at timestamp_tz(6) NOT NULL,
  PRIMARY KEY (run_id, run_seq),
  UNIQUE (run_id, idempotency_key)
);

-- The tables of a history. `{plain: …}` is for Postgres and DuckDB, `{standard: …}` and `{hybrid: …}` for the
-- two kinds of Snowflake's. Payloads and documents are JSON as text: types for JSON change the order of
-- fields, and some refuse what JSON allows. Standard tables note their primary key and do not enforce it:
-- what keeps events unique is the turn that every writer takes first. Hybrid tables enforce it and are
-- ordered by it, so they take no clustering key; not every account has them.

-- Whose turn it is to write, and in which form the tables are.
CREATE{hybrid: HYBRID} TABLE IF NOT EXISTS history_writer (
  version bigint NOT NULL{plain: PRIMARY KEY}{hybrid: PRIMARY KEY},
  turns bigint NOT NULL
);
INSERT INTO history_writer (version, turns)
SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM history_writer);

CREATE{hybrid: HYBRID} TABLE IF NOT EXISTS run_events (
  run_id varchar NOT NULL,
  run_seq bigint NOT NULL,
  type varchar NOT NULL,
  occurred_at timestamptz NOT NULL,
  step_id varchar,
  logical_attempt bigint NOT NULL,
  engine_attempt bigint,
  payload varchar NOT NULL,
  emitter varchar NOT NULL,
  plan_version varchar NOT NULL,
  idempotency_key varchar NOT NULL,
  contract_version varchar NOT NULL,
  tenant_id varchar NOT NULL,
  tenant varchar NOT NULL,
  workspace_id varchar NOT NULL,
  project varchar NOT NULL,
  environment varchar NOT NULL,
  campaign_id varchar NOT NULL,
  campaign varchar NOT NULL,
  phase varchar NOT NULL,
  channel varchar NOT NULL,
  intended bigint NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT current_timestamp,
  PRIMARY KEY (run_id, run_seq)
){standard: CLUSTER BY (to_date(occurred_at), run_id)};

CREATE{hybrid: HYBRID} TABLE IF NOT EXISTS run_snapshots (
  run_id varchar NOT NULL,
  run_seq bigint NOT NULL,
  status varchar NOT NULL,
  occurred_at timestamptz NOT NULL,
  started_at timestamptz,
  completed_at timestamptz,
  steps bigint NOT NULL,
  failed_steps bigint NOT NULL,
  document varchar NOT NULL,
  tenant_id varchar NOT NULL,
  tenant varchar NOT NULL,
  workspace_id varchar NOT NULL,
  project varchar NOT NULL,
  environment varchar NOT NULL,
  campaign_id varchar NOT NULL,
  campaign varchar NOT NULL,
  phase varchar NOT NULL,
  channel varchar NOT NULL,
  intended bigint NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT current_timestamp,
  PRIMARY KEY (run_id, run_seq)
){standard: CLUSTER BY (to_date(occurred_at), run_id)};

-- What is being written; empty between two windows.
CREATE{standard: TRANSIENT}{hybrid: TRANSIENT} TABLE IF NOT EXISTS staged_run_events (
  run_id varchar NOT NULL,
  run_seq bigint NOT NULL,
  type varchar NOT NULL,
  occurred_at timestamptz NOT NULL,
  step_id varchar,
  logical_attempt bigint NOT NULL,
  engine_attempt bigint,
  payload varchar NOT NULL,
  emitter varchar NOT NULL,
  plan_version varchar NOT NULL,
  idempotency_key varchar NOT NULL,
  contract_version varchar NOT NULL,
  tenant_id varchar NOT NULL,
  tenant varchar NOT NULL,
  workspace_id varchar NOT NULL,
  project varchar NOT NULL,
  environment varchar NOT NULL,
  campaign_id varchar NOT NULL,
  campaign varchar NOT NULL,
  phase varchar NOT NULL,
  channel varchar NOT NULL,
  intended bigint NOT NULL
);

CREATE{standard: TRANSIENT}{hybrid: TRANSIENT} TABLE IF NOT EXISTS staged_run_snapshots (
  run_id varchar NOT NULL,
  run_seq bigint NOT NULL,
  status varchar NOT NULL,
  occurred_at timestamptz NOT NULL,
  started_at timestamptz,
  completed_at timestamptz,
  steps bigint NOT NULL,
  failed_steps bigint NOT NULL,
  document varchar NOT NULL,
  tenant_id varchar NOT NULL,
  tenant varchar NOT NULL,
  workspace_id varchar NOT NULL,
  project varchar NOT NULL,
  environment varchar NOT NULL,
  campaign_id varchar NOT NULL,
  campaign varchar NOT NULL,
  phase varchar NOT NULL,
  channel varchar NOT NULL,
  intended bigint NOT NULL
);

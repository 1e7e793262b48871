-- The same as hybrid tables, which enforce their primary key and are ordered by it, so they take no
-- clustering key. Not every account has them.

-- Whose turn it is to write, and in which form the tables are.
CREATE HYBRID TABLE IF NOT EXISTS history_writer (
  version bigint NOT NULL PRIMARY KEY,
  turns bigint NOT NULL
);
INSERT INTO history_writer (version, turns)
SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM history_writer);

CREATE HYBRID TABLE IF NOT EXISTS run_events (
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
);

CREATE HYBRID TABLE IF NOT EXISTS run_snapshots (
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
);

-- What is being written; empty between two windows.
CREATE TRANSIENT TABLE IF NOT EXISTS staged_run_events (
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

CREATE TRANSIENT TABLE IF NOT EXISTS staged_run_snapshots (
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

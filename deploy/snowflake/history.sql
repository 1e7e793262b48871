-- A history of Outrider in Snowflake: a warehouse, a database, two roles and the tables.
-- Run it once, as a role that may create these (SYSADMIN with SECURITYADMIN, or ACCOUNTADMIN). Change the
-- names as you like; OUTRIDER_HISTORY has to name the same. docs/howto/history.md explains it.

CREATE ROLE IF NOT EXISTS outrider_writer;
CREATE ROLE IF NOT EXISTS outrider_reader;
CREATE WAREHOUSE IF NOT EXISTS outrider_loading
  WAREHOUSE_SIZE = XSMALL AUTO_SUSPEND = 60 AUTO_RESUME = TRUE INITIALLY_SUSPENDED = TRUE;
CREATE DATABASE IF NOT EXISTS analytics;
CREATE SCHEMA IF NOT EXISTS analytics.outrider;
USE SCHEMA analytics.outrider;

-- For hybrid tables, run `outrider history setup` with a role that may create tables instead of this part.
-- Whose turn it is to write, and in which form the tables are.
CREATE TABLE IF NOT EXISTS history_writer (
  version bigint NOT NULL,
  turns bigint NOT NULL
);
INSERT INTO history_writer (version, turns)
SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM history_writer);

CREATE TABLE IF NOT EXISTS run_events (
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
) CLUSTER BY (to_date(occurred_at), run_id);

CREATE TABLE IF NOT EXISTS run_snapshots (
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
) CLUSTER BY (to_date(occurred_at), run_id);

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

-- MERGE that only inserts needs SELECT and INSERT. Nobody but the owner may change or delete what is written.
GRANT USAGE ON WAREHOUSE outrider_loading TO ROLE outrider_writer;
GRANT USAGE ON DATABASE analytics TO ROLE outrider_writer;
GRANT USAGE ON SCHEMA analytics.outrider TO ROLE outrider_writer;
GRANT SELECT, UPDATE ON TABLE history_writer TO ROLE outrider_writer;
GRANT SELECT, INSERT ON TABLE run_events TO ROLE outrider_writer;
GRANT SELECT, INSERT ON TABLE run_snapshots TO ROLE outrider_writer;
GRANT SELECT, INSERT, DELETE ON TABLE staged_run_events TO ROLE outrider_writer;
GRANT SELECT, INSERT, DELETE ON TABLE staged_run_snapshots TO ROLE outrider_writer;

GRANT USAGE ON DATABASE analytics TO ROLE outrider_reader;
GRANT USAGE ON SCHEMA analytics.outrider TO ROLE outrider_reader;
GRANT SELECT ON TABLE run_events TO ROLE outrider_reader;
GRANT SELECT ON TABLE run_snapshots TO ROLE outrider_reader;

-- The user that Outrider writes as, with a key and no password:
-- CREATE USER outrider TYPE = SERVICE DEFAULT_ROLE = outrider_writer RSA_PUBLIC_KEY = '…';
-- GRANT ROLE outrider_writer TO USER outrider;

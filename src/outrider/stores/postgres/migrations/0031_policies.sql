-- The frequency cap, for every door: who was sent what lately, in workspaces that have a cap. The row of
-- an address is what two transactions that want to send to it wait for.
CREATE TABLE capped_addresses (
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  channel text NOT NULL,
  address text NOT NULL,
  used_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, channel, address)
);
CREATE TABLE capped_sends (
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  channel text NOT NULL,
  address text NOT NULL,
  sent_at timestamptz NOT NULL,
  outbox_id uuid NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, channel, address, sent_at, outbox_id)
);

-- How many of a job's members wait for what and until when, and how many ever did at once. They have no
-- ledger row yet.
CREATE TABLE policy_holds (
  run_id uuid NOT NULL,
  job_id uuid NOT NULL,
  waits_for text NOT NULL,
  waiting integer NOT NULL,
  items integer NOT NULL,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (run_id, job_id, waits_for)
);
CREATE INDEX policy_holds_until ON policy_holds (until, job_id);

-- The spine: who owns what, campaigns and their audience, runs and jobs, and the one ledger.
-- channel_outbox has no foreign keys: its writer holds the job's row in the same transaction, and
-- a check per item would cost more than the item. Its fillfactor leaves room for a HOT close.

CREATE TABLE tenants (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE TABLE workspaces (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  project text NOT NULL,
  environment text NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (tenant_id, project, environment)
);

INSERT INTO tenants VALUES
  ('00000000-0000-7000-8000-000000000001', 'default', '2026-01-01T00:00:00.000000Z');
INSERT INTO workspaces VALUES
  ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001',
   'default', 'default', '2026-01-01T00:00:00.000000Z');

CREATE TABLE campaigns (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  workspace_id uuid NOT NULL REFERENCES workspaces (id),
  name text NOT NULL,
  definition json NOT NULL,
  audience_size integer NOT NULL DEFAULT 0,
  last_sequence bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL
);
CREATE INDEX campaigns_by_workspace ON campaigns (tenant_id, workspace_id, id);

CREATE TABLE campaign_phases (
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  phase text NOT NULL,
  ordinal integer NOT NULL,
  state text NOT NULL DEFAULT 'not_started'
    CHECK (state IN ('not_started', 'in_progress', 'paused', 'completed', 'failed')),
  run_id uuid,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (campaign_id, phase),
  UNIQUE (campaign_id, ordinal)
);

-- What happened to a campaign, in the one order that every client sees.
CREATE TABLE campaign_events (
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  sequence bigint NOT NULL,
  type text NOT NULL,
  phase text NOT NULL,
  payload json NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (campaign_id, sequence)
);

-- `position` is dense, so a job is a range. `invalid` and `duplicate` are sets of address kinds
-- (1 e-mail, 2 phone, 4 push token). `message_id` names the only message this member gets.
CREATE TABLE audience_members (
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  position integer NOT NULL,
  recipient_id text NOT NULL,
  email text,
  phone text,
  push_token text,
  attributes json NOT NULL,
  message_id text,
  invalid integer NOT NULL DEFAULT 0,
  duplicate integer NOT NULL DEFAULT 0,
  PRIMARY KEY (campaign_id, position),
  UNIQUE (campaign_id, recipient_id)
);

CREATE TABLE assets (
  id uuid PRIMARY KEY,
  version integer NOT NULL,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  message_id text NOT NULL,
  channel text NOT NULL,
  submission_target text NOT NULL,
  subject text,
  body text NOT NULL,
  script_version text,
  created_at timestamptz NOT NULL,
  UNIQUE (campaign_id, message_id, version)
);

CREATE TABLE contract_snapshots (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  sha256 text NOT NULL UNIQUE CHECK (length(sha256) = 64),
  submission_target text NOT NULL,
  document json NOT NULL,
  created_at timestamptz NOT NULL
);

-- What all workers of this database know of a target: its token bucket, until when its provider
-- asked to be left alone, and its circuit breaker.
CREATE TABLE target_states (
  submission_target text PRIMARY KEY,
  tokens double precision NOT NULL,
  refilled_at timestamptz NOT NULL,
  resume_at timestamptz,
  failures integer NOT NULL DEFAULT 0,
  breaker text NOT NULL DEFAULT 'closed' CHECK (breaker IN ('closed', 'open', 'probing')),
  probe_at timestamptz,
  updated_at timestamptz NOT NULL
);

CREATE TABLE campaign_runs (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  phase text NOT NULL,
  channel text NOT NULL,
  status text NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'running', 'completed', 'partial', 'failed')),
  intended integer NOT NULL CHECK (intended >= 0),
  scheduled_for timestamptz NOT NULL,
  retry_of uuid REFERENCES campaign_runs (id),
  created_at timestamptz NOT NULL,
  started_at timestamptz,
  finished_at timestamptz,
  CHECK ((status IN ('completed', 'partial', 'failed')) = (finished_at IS NOT NULL))
);
CREATE INDEX campaign_runs_by_campaign ON campaign_runs (campaign_id, created_at);

-- `run_at` NULL: parked until a verdict on its in-doubt items wakes it. A job without a run is a
-- lane: the standing job that delivers the single messages of one submission target.
CREATE TABLE job_queue (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  run_id uuid REFERENCES campaign_runs (id),
  job_type text NOT NULL,
  submission_target text NOT NULL,
  lane integer,
  asset_id uuid REFERENCES assets (id),
  contract_id integer REFERENCES contract_snapshots (id),
  fallback_contract_id integer REFERENCES contract_snapshots (id),
  first_position integer,
  last_position integer,
  item_count integer NOT NULL CHECK (item_count >= 0),
  status text NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'locked', 'completed', 'failed', 'dead')),
  outcome text CHECK (outcome IN ('completed', 'partial', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  fence bigint NOT NULL DEFAULT 0,
  run_at timestamptz,
  locked_by text,
  locked_at timestamptz,
  heartbeat_at timestamptz,
  lease_expires_at timestamptz,
  last_error text,
  sent integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  skipped integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((run_id IS NULL) = (lane IS NOT NULL)),
  CHECK (run_id IS NULL OR (asset_id IS NOT NULL AND contract_id IS NOT NULL AND item_count > 0)),
  CHECK ((status = 'locked') = (locked_by IS NOT NULL)),
  CHECK ((status IN ('completed', 'dead')) = (outcome IS NOT NULL)),
  CHECK (status NOT IN ('completed', 'dead') OR item_count = sent + failed + skipped)
);
CREATE INDEX job_queue_by_run ON job_queue (run_id, id);
CREATE UNIQUE INDEX job_queue_lanes ON job_queue (tenant_id, workspace_id, submission_target, lane)
  WHERE run_id IS NULL;
CREATE INDEX job_queue_due ON job_queue (run_at, id) WHERE status = 'queued';
CREATE INDEX job_queue_locked ON job_queue (lease_expires_at) WHERE status = 'locked';
CREATE INDEX job_queue_failed ON job_queue (run_at) WHERE status = 'failed';
CREATE INDEX job_queue_unfinished ON job_queue (run_id)
  WHERE status IN ('queued', 'locked', 'failed');

-- The ledger: the only table from which a provider is ever called. A row carries its latest
-- attempt; earlier ones are in attempt_history. Opened and not closed means the call is out.
CREATE TABLE channel_outbox (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  origin text NOT NULL CHECK (origin IN ('campaign', 'workflow', 'intent')),
  run_id uuid,
  job_id uuid,
  channel text NOT NULL,
  provider text NOT NULL,
  submission_target text NOT NULL,
  contract_id integer NOT NULL,
  recipient_id text NOT NULL,
  recipient_address text,
  asset_id uuid,
  asset_version integer,
  subject text,
  payload json,
  idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32),
  status text NOT NULL CHECK (status IN ('queued', 'sent', 'called', 'posted', 'failed', 'skipped')),
  skipped boolean NOT NULL DEFAULT false,
  intent_status text CHECK
    (intent_status IN ('PENDING', 'ACCEPTED', 'REJECTED', 'EXHAUSTED')),
  exhausted_reason text CHECK (exhausted_reason IN ('deadline_exceeded', 'max_attempts', 'one_shot')),
  reason text,
  error text,
  attempts integer NOT NULL DEFAULT 0,
  fallback_contract_id integer,
  attempt_contract_id integer,
  attempt_fence bigint,
  attempt_opened_at timestamptz,
  attempt_closed_at timestamptz,
  progress text CHECK (progress IN ('NOT_SENT', 'SENT_NO_ANSWER', 'ANSWERED')),
  maybe_received boolean NOT NULL DEFAULT false,
  provider_message_id text,
  next_attempt_at timestamptz,
  doubted_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (tenant_id, workspace_id, idempotency_key),
  CONSTRAINT channel_outbox_skipped_status_check CHECK (skipped = (status = 'skipped')),
  CONSTRAINT channel_outbox_judged_when_terminal CHECK
    (status = 'queued' OR intent_status IS DISTINCT FROM 'PENDING'),
  CONSTRAINT channel_outbox_success_was_called CHECK
    (status NOT IN ('sent', 'called', 'posted') OR attempt_closed_at IS NOT NULL),
  CONSTRAINT channel_outbox_terminal_is_closed CHECK
    (status = 'queued' OR attempt_opened_at IS NULL OR attempt_closed_at IS NOT NULL),
  CONSTRAINT channel_outbox_doubt_is_open CHECK
    (doubted_at IS NULL OR (status = 'queued' AND attempt_closed_at IS NULL
                            AND (attempt_opened_at IS NOT NULL OR maybe_received)))
) WITH (fillfactor = 70);
CREATE INDEX idx_channel_outbox_run_id ON channel_outbox (run_id, job_id, id);
CREATE INDEX channel_outbox_in_lane ON channel_outbox (job_id, next_attempt_at)
  WHERE run_id IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX channel_outbox_doubted ON channel_outbox (doubted_at) WHERE doubted_at IS NOT NULL;

CREATE TABLE attempt_history (
  outbox_id uuid NOT NULL,
  attempt integer NOT NULL,
  fence bigint NOT NULL,
  opened_at timestamptz NOT NULL,
  closed_at timestamptz NOT NULL,
  progress text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('rejected', 'error', 'abandoned', 'disproved')),
  reason text,
  error text,
  PRIMARY KEY (outbox_id, attempt)
);

CREATE VIEW submission_attempts AS
  SELECT outbox_id, attempt, fence, opened_at, closed_at, progress, outcome, reason, error,
         NULL AS provider_message_id
    FROM attempt_history
  UNION ALL
  SELECT id, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
         CASE WHEN attempt_closed_at IS NULL THEN NULL
              WHEN status IN ('sent', 'called', 'posted') THEN 'accepted'
              WHEN progress = 'ANSWERED' THEN 'rejected' ELSE 'error' END,
         reason, error, provider_message_id
    FROM channel_outbox
   WHERE attempt_opened_at IS NOT NULL;

-- Contract 001's intents are ledger rows in its own vocabulary.
CREATE VIEW submission_intents AS
  SELECT tenant_id, workspace_id, recipient_id AS intent_id, submission_target, payload,
         intent_status AS status,
         CASE intent_status WHEN 'ACCEPTED' THEN 'accepted' WHEN 'REJECTED' THEN reason END
           AS final_outcome,
         exhausted_reason, attempts, contract_id, id AS outbox_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'intent';

CREATE TABLE suppressions (
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  channel text NOT NULL,
  address text NOT NULL,
  reason text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, channel, address)
);

CREATE TABLE campaign_audit_log (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  campaign_id uuid,
  run_id uuid,
  job_id uuid,
  outbox_id uuid,
  actor text NOT NULL,
  event text NOT NULL,
  detail json NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX campaign_audit_log_by_campaign ON campaign_audit_log (campaign_id, id);
CREATE INDEX campaign_audit_log_by_run ON campaign_audit_log (run_id, id);

-- What is written once stays as it was written.
CREATE FUNCTION outrider_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER channel_outbox_terminal_is_final BEFORE UPDATE ON channel_outbox
  FOR EACH ROW WHEN (OLD.status <> 'queued')
  EXECUTE FUNCTION outrider_refuse('a terminal ledger row never changes');
CREATE TRIGGER channel_outbox_is_kept BEFORE DELETE ON channel_outbox
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a ledger row is never deleted');
CREATE TRIGGER attempt_history_append_only BEFORE UPDATE OR DELETE ON attempt_history
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a closed attempt never changes');
CREATE TRIGGER campaign_audit_log_append_only BEFORE UPDATE OR DELETE ON campaign_audit_log
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('the audit log is append-only');
CREATE TRIGGER assets_immutable BEFORE UPDATE ON assets
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('an asset version never changes');
CREATE TRIGGER campaign_events_immutable BEFORE UPDATE ON campaign_events
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a campaign event never changes');
CREATE TRIGGER channel_outbox_not_truncated BEFORE TRUNCATE ON channel_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('the ledger is never truncated');
CREATE TRIGGER attempt_history_not_truncated BEFORE TRUNCATE ON attempt_history
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('closed attempts are never truncated');
CREATE TRIGGER campaign_audit_log_not_truncated BEFORE TRUNCATE ON campaign_audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('the audit log is never truncated');

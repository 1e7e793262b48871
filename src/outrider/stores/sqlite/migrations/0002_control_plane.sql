-- The control plane: phases that pause, stop and start again, their own jobs, keys, artifacts.

-- `last_sequence` is the sequence of the event that brought the phase into its state. `progress`
-- is what was last told of it. `bypass_*` say who changed a state outside the state machine, and
-- are only filled while that happens.
ALTER TABLE campaign_phases ADD COLUMN last_sequence integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_phases ADD COLUMN reason text;
ALTER TABLE campaign_phases ADD COLUMN started_at text;
ALTER TABLE campaign_phases ADD COLUMN finished_at text;
ALTER TABLE campaign_phases ADD COLUMN progress text;
ALTER TABLE campaign_phases ADD COLUMN progress_at text;
ALTER TABLE campaign_phases ADD COLUMN bypass_caller text;
ALTER TABLE campaign_phases ADD COLUMN bypass_reason text;
CREATE INDEX campaign_phases_in_flight ON campaign_phases (campaign_id)
  WHERE state IN ('in_progress', 'paused');
UPDATE campaign_phases
   SET last_sequence = coalesce((SELECT max(e.sequence) FROM campaign_events e
                                  WHERE e.campaign_id = campaign_phases.campaign_id
                                    AND e.phase = campaign_phases.phase), 0);

ALTER TABLE campaign_runs ADD COLUMN stopped_at text;

-- `paused`: nobody takes the job, and who has it opens no more attempts. `cancelled`: what was
-- never attempted is skipped. A job without an asset is a phase handler's own: `detail` is its
-- task, `result` what came of it. `retry_job_id` is the job whose remainder this one takes up.
-- Made anew, because SQLite cannot take a constraint away.
CREATE TABLE new_job_queue (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  run_id text REFERENCES campaign_runs (id),
  job_type text NOT NULL,
  submission_target text NOT NULL,
  lane integer,
  asset_id text REFERENCES assets (id),
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
  fence integer NOT NULL DEFAULT 0,
  run_at text,
  locked_by text,
  locked_at text,
  heartbeat_at text,
  lease_expires_at text,
  last_error text,
  sent integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  skipped integer NOT NULL DEFAULT 0,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  paused integer NOT NULL DEFAULT 0,
  cancelled integer NOT NULL DEFAULT 0,
  retry_job_id text REFERENCES job_queue (id),
  detail text,
  result text,
  CHECK ((run_id IS NULL) = (lane IS NOT NULL)),
  CHECK (run_id IS NULL OR item_count > 0),
  CHECK (run_id IS NULL OR (asset_id IS NULL) = (contract_id IS NULL)),
  CHECK ((status = 'locked') = (locked_by IS NOT NULL)),
  CHECK ((status IN ('completed', 'dead')) = (outcome IS NOT NULL)),
  CHECK (status NOT IN ('completed', 'dead') OR item_count = sent + failed + skipped)
) STRICT;
INSERT INTO new_job_queue
SELECT id, tenant_id, workspace_id, run_id, job_type, submission_target, lane, asset_id,
       contract_id, fallback_contract_id, first_position, last_position, item_count, status,
       outcome, attempts, max_attempts, fence, run_at, locked_by, locked_at, heartbeat_at,
       lease_expires_at, last_error, sent, failed, skipped, created_at, updated_at, 0, 0, NULL,
       NULL, NULL
  FROM job_queue;
DROP TABLE job_queue;
ALTER TABLE new_job_queue RENAME TO job_queue;
CREATE INDEX job_queue_by_run ON job_queue (run_id, id);
CREATE UNIQUE INDEX job_queue_lanes ON job_queue (tenant_id, workspace_id, submission_target, lane)
  WHERE run_id IS NULL;
CREATE INDEX job_queue_due ON job_queue (run_at, id) WHERE status = 'queued' AND paused = 0;
CREATE INDEX job_queue_locked ON job_queue (lease_expires_at) WHERE status = 'locked';
CREATE INDEX job_queue_failed ON job_queue (run_at) WHERE status = 'failed';
CREATE INDEX job_queue_unfinished ON job_queue (run_id)
  WHERE status IN ('queued', 'locked', 'failed');

-- What was in doubt when a retry was planned, and so is not part of it, whatever becomes of it.
-- `taken_by` is the later run that took it up, once a verdict had made it part of the remainder.
CREATE TABLE retry_exclusions (
  campaign_id text NOT NULL,
  run_id text NOT NULL,
  outbox_id text NOT NULL,
  taken_by text,
  PRIMARY KEY (run_id, outbox_id)
) STRICT;
CREATE INDEX retry_exclusions_left ON retry_exclusions (campaign_id) WHERE taken_by IS NULL;
CREATE INDEX retry_exclusions_taken ON retry_exclusions (taken_by, outbox_id)
  WHERE taken_by IS NOT NULL;

-- Recipients as they were given, waiting for the campaign's audience_import.
CREATE TABLE audience_uploads (
  campaign_id text NOT NULL REFERENCES campaigns (id),
  chunk integer NOT NULL,
  first_position integer NOT NULL,
  record_count integer NOT NULL CHECK (record_count > 0),
  records text NOT NULL,
  PRIMARY KEY (campaign_id, chunk)
) STRICT;

CREATE TABLE artifacts (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  campaign_id text NOT NULL REFERENCES campaigns (id),
  run_id text NOT NULL REFERENCES campaign_runs (id),
  name text NOT NULL,
  media_type text NOT NULL,
  reference text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  size_bytes integer NOT NULL CHECK (size_bytes >= 0),
  created_at text NOT NULL,
  UNIQUE (run_id, name)
) STRICT;
CREATE INDEX artifacts_by_campaign ON artifacts (campaign_id, id);

-- A key is shown once; what is kept cannot be turned back into it.
CREATE TABLE api_keys (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants (id),
  workspace_id text NOT NULL REFERENCES workspaces (id),
  name text NOT NULL,
  scopes text NOT NULL,
  salt blob NOT NULL,
  digest blob NOT NULL CHECK (length(digest) = 32),
  created_at text NOT NULL,
  revoked_at text
) STRICT;
CREATE INDEX api_keys_by_workspace ON api_keys (tenant_id, workspace_id, id);

-- The answer to a request that came with an idempotency key. `owner` is who is still at it.
CREATE TABLE idempotency_records (
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  owner text NOT NULL,
  answer text,
  expires_at text NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, key)
) STRICT;
CREATE INDEX idempotency_records_expiry ON idempotency_records (expires_at);

CREATE INDEX campaign_audit_log_by_workspace ON campaign_audit_log (tenant_id, workspace_id, id);
CREATE INDEX campaign_audit_log_bypasses ON campaign_audit_log (id)
  WHERE event = 'phase.transition_bypassed';

-- A phase's state comes with its lifecycle event, written just before it in the same transaction.
-- A change that came without is let through, and recorded.
CREATE TRIGGER campaign_phases_watched AFTER UPDATE OF state ON campaign_phases
  WHEN OLD.state <> NEW.state AND NOT (NEW.last_sequence > OLD.last_sequence AND EXISTS (
    SELECT 1 FROM campaign_events e
     WHERE e.campaign_id = NEW.campaign_id AND e.sequence = NEW.last_sequence
       AND e.phase = NEW.phase
       AND NEW.state = CASE e.type WHEN 'phase_started' THEN 'in_progress'
                                   WHEN 'phase_resumed' THEN 'in_progress'
                                   WHEN 'phase_paused' THEN 'paused'
                                   WHEN 'phase_completed' THEN 'completed'
                                   WHEN 'phase_failed' THEN 'failed' END))
BEGIN
  INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, run_id, actor, event,
                                  detail, created_at)
  SELECT substr(stamp, 1, 8) || '-' || substr(stamp, 9) || '-7' || substr(noise, 1, 3) || '-8'
           || substr(noise, 4, 3) || '-' || substr(noise, 7, 12),
         c.tenant_id, c.workspace_id, c.id, NEW.run_id, 'database', 'phase.transition_bypassed',
         json_object('phase', NEW.phase, 'from_status', OLD.state, 'to_status', NEW.state,
                     'caller', coalesce(NEW.bypass_caller, 'sql'),
                     'reason', coalesce(NEW.bypass_reason, 'unknown')),
         strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    FROM campaigns c,
         (SELECT printf('%012x', CAST(unixepoch('subsec') * 1000 AS integer)) AS stamp,
                 lower(hex(randomblob(9))) AS noise) made
   WHERE c.id = NEW.campaign_id;
END;

-- The control plane: phases that pause, stop and start again, their own jobs, keys, artifacts.

-- `last_sequence` is the sequence of the event that brought the phase into its state. `progress`
-- is what was last told of it. `bypass_*` say who changed a state outside the state machine, and
-- are only filled while that happens.
ALTER TABLE campaign_phases
  ADD COLUMN last_sequence bigint NOT NULL DEFAULT 0,
  ADD COLUMN reason text,
  ADD COLUMN started_at timestamptz,
  ADD COLUMN finished_at timestamptz,
  ADD COLUMN progress json,
  ADD COLUMN progress_at timestamptz,
  ADD COLUMN bypass_caller text,
  ADD COLUMN bypass_reason text;
CREATE INDEX campaign_phases_in_flight ON campaign_phases (campaign_id)
  WHERE state IN ('in_progress', 'paused');
UPDATE campaign_phases p
   SET last_sequence = coalesce((SELECT max(e.sequence) FROM campaign_events e
                                  WHERE e.campaign_id = p.campaign_id AND e.phase = p.phase), 0);

ALTER TABLE campaign_runs ADD COLUMN stopped_at timestamptz;

-- `paused`: nobody takes the job, and who has it opens no more attempts. `cancelled`: what was
-- never attempted is skipped. A job without an asset is a phase handler's own: `detail` is its
-- task, `result` what came of it. `retry_job_id` is the job whose remainder this one takes up.
ALTER TABLE job_queue
  ADD COLUMN paused boolean NOT NULL DEFAULT false,
  ADD COLUMN cancelled boolean NOT NULL DEFAULT false,
  ADD COLUMN retry_job_id uuid REFERENCES job_queue (id),
  ADD COLUMN detail json,
  ADD COLUMN result json;
DO $$
DECLARE old text;
BEGIN
  SELECT conname INTO STRICT old FROM pg_constraint
   WHERE conrelid = 'job_queue'::regclass AND contype = 'c'
     AND pg_get_constraintdef(oid) LIKE '%asset_id IS NOT NULL%';
  EXECUTE format('ALTER TABLE job_queue DROP CONSTRAINT %I', old);
END
$$;
ALTER TABLE job_queue
  ADD CHECK (run_id IS NULL OR item_count > 0),
  ADD CHECK (run_id IS NULL OR (asset_id IS NULL) = (contract_id IS NULL));
DROP INDEX job_queue_due;
CREATE INDEX job_queue_due ON job_queue (run_at, id) WHERE status = 'queued' AND NOT paused;

-- What was in doubt when a retry was planned, and so is not part of it, whatever becomes of it.
-- `taken_by` is the later run that took it up, once a verdict had made it part of the remainder.
CREATE TABLE retry_exclusions (
  campaign_id uuid NOT NULL,
  run_id uuid NOT NULL,
  outbox_id uuid NOT NULL,
  taken_by uuid,
  PRIMARY KEY (run_id, outbox_id)
);
CREATE INDEX retry_exclusions_left ON retry_exclusions (campaign_id) WHERE taken_by IS NULL;
CREATE INDEX retry_exclusions_taken ON retry_exclusions (taken_by, outbox_id)
  WHERE taken_by IS NOT NULL;

-- Recipients as they were given, waiting for the campaign's audience_import.
CREATE TABLE audience_uploads (
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  chunk integer NOT NULL,
  first_position integer NOT NULL,
  record_count integer NOT NULL CHECK (record_count > 0),
  records json NOT NULL,
  PRIMARY KEY (campaign_id, chunk)
);

CREATE TABLE artifacts (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  campaign_id uuid NOT NULL REFERENCES campaigns (id),
  run_id uuid NOT NULL REFERENCES campaign_runs (id),
  name text NOT NULL,
  media_type text NOT NULL,
  reference text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
  created_at timestamptz NOT NULL,
  UNIQUE (run_id, name)
);
CREATE INDEX artifacts_by_campaign ON artifacts (campaign_id, id);

-- A key is shown once; what is kept cannot be turned back into it.
CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  workspace_id uuid NOT NULL REFERENCES workspaces (id),
  name text NOT NULL,
  scopes text NOT NULL,
  salt bytea NOT NULL,
  digest bytea NOT NULL CHECK (octet_length(digest) = 32),
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX api_keys_by_workspace ON api_keys (tenant_id, workspace_id, id);

-- The answer to a request that came with an idempotency key. `owner` is who is still at it.
CREATE TABLE idempotency_records (
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  owner text NOT NULL,
  answer text,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, key)
);
CREATE INDEX idempotency_records_expiry ON idempotency_records (expires_at);

CREATE INDEX campaign_audit_log_by_workspace ON campaign_audit_log (tenant_id, workspace_id, id);
CREATE INDEX campaign_audit_log_bypasses ON campaign_audit_log (id)
  WHERE event = 'phase.transition_bypassed';

-- A phase's state comes with its lifecycle event, written just before it in the same transaction.
-- A change that came without is let through, and recorded.
CREATE FUNCTION outrider_watch_phase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.last_sequence > OLD.last_sequence AND EXISTS (
    SELECT 1 FROM campaign_events e
     WHERE e.campaign_id = NEW.campaign_id AND e.sequence = NEW.last_sequence
       AND e.phase = NEW.phase
       AND NEW.state = CASE e.type WHEN 'phase_started' THEN 'in_progress'
                                   WHEN 'phase_resumed' THEN 'in_progress'
                                   WHEN 'phase_paused' THEN 'paused'
                                   WHEN 'phase_completed' THEN 'completed'
                                   WHEN 'phase_failed' THEN 'failed' END) THEN
    RETURN NULL;
  END IF;
  INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, run_id, actor, event,
                                  detail, created_at)
  SELECT (substr(stamp, 1, 8) || '-' || substr(stamp, 9) || '-7' || substr(noise, 1, 3) || '-8'
          || substr(noise, 4, 3) || '-' || substr(noise, 7, 12))::uuid,
         c.tenant_id, c.workspace_id, c.id, NEW.run_id, 'database', 'phase.transition_bypassed',
         json_build_object('phase', NEW.phase, 'from_status', OLD.state, 'to_status', NEW.state,
                           'caller', coalesce(NEW.bypass_caller, 'sql:' || session_user),
                           'reason', coalesce(NEW.bypass_reason, 'unknown')),
         clock_timestamp()
    FROM campaigns c,
         (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                   AS stamp,
                 replace(gen_random_uuid()::text, '-', '') AS noise) made
   WHERE c.id = NEW.campaign_id;
  RETURN NULL;
END
$$;
CREATE TRIGGER campaign_phases_watched AFTER UPDATE OF state ON campaign_phases
  FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION outrider_watch_phase();

-- Whoever streams a campaign's events is told at once that there are new ones.
CREATE FUNCTION outrider_tell_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('outrider_campaign_events', NEW.campaign_id::text);
  RETURN NULL;
END
$$;
CREATE TRIGGER campaign_events_told AFTER INSERT ON campaign_events
  FOR EACH ROW EXECUTE FUNCTION outrider_tell_event();

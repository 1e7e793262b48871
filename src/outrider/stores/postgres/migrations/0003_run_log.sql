-- Run state as a log: what happened to a run is truth, its row and its snapshots follow from it.

-- `last_seq` is the append authority's counter, `status_seq` the event that brought the status,
-- `snapshot_seq` how far the projector is, `signals` how often somebody steered the run.
-- A run without `approved_at` waits for approval or for room, and nobody takes its jobs.
ALTER TABLE campaign_runs
  ADD COLUMN last_seq bigint NOT NULL DEFAULT 0,
  ADD COLUMN status_seq bigint NOT NULL DEFAULT 0,
  ADD COLUMN snapshot_seq bigint NOT NULL DEFAULT 0,
  ADD COLUMN signals integer NOT NULL DEFAULT 0,
  ADD COLUMN plan_version text NOT NULL DEFAULT '1',
  ADD COLUMN approved_at timestamptz;
CREATE INDEX campaign_runs_unprojected ON campaign_runs (id) WHERE last_seq > snapshot_seq;
CREATE INDEX campaign_runs_unfinished ON campaign_runs (tenant_id, workspace_id)
  WHERE finished_at IS NULL;

ALTER TABLE job_queue ADD COLUMN logical_attempt integer NOT NULL DEFAULT 1;

-- The truth about a run. `type` is free, because a later version may write types of its own.
CREATE TABLE run_events (
  run_id uuid NOT NULL REFERENCES campaign_runs (id),
  run_seq bigint NOT NULL CHECK (run_seq > 0),
  type text NOT NULL CHECK (type <> ''),
  emitter text NOT NULL,
  step_id text,
  logical_attempt integer NOT NULL CHECK (logical_attempt > 0),
  engine_attempt integer,
  plan_version text NOT NULL,
  idempotency_key bytea NOT NULL CHECK (octet_length(idempotency_key) = 32),
  signal_id text,
  payload json NOT NULL,
  occurred_at timestamptz NOT NULL,
  PRIMARY KEY (run_id, run_seq),
  UNIQUE (run_id, idempotency_key)
);
CREATE UNIQUE INDEX run_events_signals ON run_events (run_id, signal_id)
  WHERE signal_id IS NOT NULL;

-- Each is written once; the newest of a run counts, older ones may be cleared away.
CREATE TABLE run_snapshots (
  run_id uuid NOT NULL REFERENCES campaign_runs (id),
  last_event_seq bigint NOT NULL,
  status text NOT NULL CHECK (status IN
    ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED')),
  document json NOT NULL,
  projected_at timestamptz NOT NULL,
  PRIMARY KEY (run_id, last_event_seq)
);

-- Who asked for which run of which plan, and where it stands in the queue. `fence` grows with
-- every lease.
CREATE TABLE run_requests (
  run_id uuid PRIMARY KEY REFERENCES campaign_runs (id),
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  project text NOT NULL,
  environment text NOT NULL,
  plan_id text NOT NULL,
  plan_version text NOT NULL,
  run_request_id text NOT NULL,
  idempotency_key bytea NOT NULL UNIQUE CHECK (octet_length(idempotency_key) = 32),
  status text NOT NULL CHECK (status IN ('waiting', 'started', 'skipped')),
  needs_approval boolean NOT NULL DEFAULT false,
  approved_by text,
  reason text,
  lease_owner text,
  lease_expires_at timestamptz,
  fence bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (tenant_id, project, environment, plan_id, plan_version, run_request_id)
);
CREATE INDEX run_requests_waiting ON run_requests (tenant_id, workspace_id, run_id)
  WHERE status = 'waiting' AND NOT needs_approval;

-- Who hears of run events, and which one process tells each of them now. A disabled sink is told
-- nothing: what it has not heard waits.
CREATE TABLE event_bus_sinks (
  name text PRIMARY KEY,
  owner text,
  lease_expires_at timestamptz,
  published bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  disabled_at timestamptz,
  disabled_why text,
  created_at timestamptz NOT NULL
);

-- What a sink has still to hear; the event itself stands in the log.
CREATE TABLE event_bus_outbox (
  sink text NOT NULL,
  run_id uuid NOT NULL,
  run_seq bigint NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL,
  last_error text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (sink, run_id, run_seq),
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
);

CREATE TABLE event_bus_dead_letters (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  sink text NOT NULL,
  run_id uuid NOT NULL,
  run_seq bigint NOT NULL,
  attempts integer NOT NULL,
  error text NOT NULL,
  created_at timestamptz NOT NULL,
  redriven_at timestamptz,
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
);
CREATE INDEX event_bus_dead_letters_by_workspace
  ON event_bus_dead_letters (tenant_id, workspace_id, id);
CREATE INDEX event_bus_dead_letters_waiting
  ON event_bus_dead_letters (sink, workspace_id, id) WHERE redriven_at IS NULL;

-- An alert stands until it is resolved; raised again meanwhile, it is counted.
CREATE TABLE alerts (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  code text NOT NULL,
  severity text NOT NULL,
  subject text NOT NULL,
  message text NOT NULL,
  detail json NOT NULL,
  times integer NOT NULL DEFAULT 1,
  raised_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  resolved_at timestamptz
);
CREATE INDEX alerts_by_workspace ON alerts (tenant_id, workspace_id, id);
CREATE UNIQUE INDEX alerts_standing ON alerts (code, subject, workspace_id)
  WHERE resolved_at IS NULL;

-- Runs from before the log: their rows say what their events would have been.
UPDATE campaign_runs SET approved_at = created_at;
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, plan_version,
                        idempotency_key, payload, occurred_at)
SELECT run_id, row_number() OVER (PARTITION BY run_id ORDER BY rank, step_id), type, emitter,
       step_id, 1, '1',
       sha256(convert_to(run_id || '|' || coalesce(step_id, '') || '|1|' || type || '|1', 'UTF8')),
       payload, occurred_at
  FROM (
    SELECT id AS run_id, 1 AS rank, 'RunApproved' AS type, 'planner' AS emitter,
           NULL::text AS step_id, json_build_object('adopted', true) AS payload,
           created_at AS occurred_at
      FROM campaign_runs
    UNION ALL
    SELECT id, 2, 'RunStarted', 'engine', NULL,
           json_build_object('adopted', true, 'engineRunRef', 'local/' || id), started_at
      FROM campaign_runs WHERE started_at IS NOT NULL
    UNION ALL
    SELECT run_id, 3, CASE outcome WHEN 'failed' THEN 'StepFailed' ELSE 'StepCompleted' END,
           'activity', id::text,
           json_build_object('adopted', true, 'status', status, 'outcome', outcome,
                             'sent', sent, 'failed', failed, 'skipped', skipped), updated_at
      FROM job_queue WHERE run_id IS NOT NULL AND outcome IS NOT NULL
    UNION ALL
    SELECT r.id, 4, 'RunPaused', 'engine', NULL, json_build_object('adopted', true), p.updated_at
      FROM campaign_phases p JOIN campaign_runs r ON r.id = p.run_id
     WHERE p.state = 'paused' AND r.finished_at IS NULL
    UNION ALL
    SELECT id, 5, 'SignalAccepted', 'authorisation', NULL,
           json_build_object('adopted', true, 'signal', 'CANCEL'), stopped_at
      FROM campaign_runs WHERE stopped_at IS NOT NULL
    UNION ALL
    SELECT id, 6, CASE WHEN stopped_at IS NOT NULL THEN 'RunCancelled'
                       WHEN status = 'failed' THEN 'RunFailed' ELSE 'RunCompleted' END,
           'engine', NULL, json_build_object('adopted', true), finished_at
      FROM campaign_runs WHERE finished_at IS NOT NULL) history;
UPDATE campaign_runs r
   SET last_seq = (SELECT max(run_seq) FROM run_events e WHERE e.run_id = r.id),
       status_seq = coalesce((SELECT max(run_seq) FROM run_events e
                               WHERE e.run_id = r.id
                                 AND e.type IN ('RunStarted', 'RunCompleted', 'RunFailed',
                                                'RunCancelled')), 0),
       signals = (SELECT count(*) FROM run_events e
                   WHERE e.run_id = r.id AND e.type IN ('RunPaused', 'SignalAccepted'));

CREATE TRIGGER run_events_append_only BEFORE UPDATE OR DELETE ON run_events
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('the log of a run is append-only');
CREATE TRIGGER run_events_not_truncated BEFORE TRUNCATE ON run_events
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('the log of a run is append-only');
CREATE TRIGGER run_snapshots_immutable BEFORE UPDATE ON run_snapshots
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a snapshot never changes');

-- What happened goes to every sink's outbox with it; where there is no sink, nowhere.
CREATE FUNCTION outrider_tell_sinks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
  SELECT s.name, e.run_id, e.run_seq, e.occurred_at, e.occurred_at
    FROM event_bus_sinks s CROSS JOIN told e;
  RETURN NULL;
END
$$;
CREATE TRIGGER run_events_told AFTER INSERT ON run_events
  REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION outrider_tell_sinks();

-- A run's row cannot say what its log does not.
CREATE FUNCTION outrider_follow_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM run_events e
     WHERE e.run_id = NEW.id AND e.run_seq = NEW.status_seq
       AND CASE NEW.status WHEN 'running' THEN e.type = 'RunStarted'
                           WHEN 'completed' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'partial' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'failed' THEN e.type IN ('RunFailed', 'RunCancelled') END) THEN
    RAISE EXCEPTION 'a run''s status comes with its event'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER campaign_runs_follow_their_log BEFORE UPDATE OF status ON campaign_runs
  FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION outrider_follow_log();

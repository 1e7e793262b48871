-- Run state as a log: what happened to a run is truth, its row and its snapshots follow from it.

-- `last_seq` is the append authority's counter, `status_seq` the event that brought the status,
-- `snapshot_seq` how far the projector is, `signals` how often somebody steered the run.
-- A run without `approved_at` waits for approval or for room, and nobody takes its jobs.
ALTER TABLE campaign_runs ADD COLUMN last_seq integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN status_seq integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN snapshot_seq integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN signals integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN plan_version text NOT NULL DEFAULT '1';
ALTER TABLE campaign_runs ADD COLUMN approved_at text;
CREATE INDEX campaign_runs_unprojected ON campaign_runs (id) WHERE last_seq > snapshot_seq;
CREATE INDEX campaign_runs_unfinished ON campaign_runs (tenant_id, workspace_id)
  WHERE finished_at IS NULL;

ALTER TABLE job_queue ADD COLUMN logical_attempt integer NOT NULL DEFAULT 1;

-- The truth about a run. `type` is free, because a later version may write types of its own.
CREATE TABLE run_events (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  run_seq integer NOT NULL CHECK (run_seq > 0),
  type text NOT NULL CHECK (type <> ''),
  emitter text NOT NULL,
  step_id text,
  logical_attempt integer NOT NULL CHECK (logical_attempt > 0),
  engine_attempt integer,
  plan_version text NOT NULL,
  idempotency_key blob NOT NULL CHECK (length(idempotency_key) = 32),
  signal_id text,
  payload text NOT NULL,
  occurred_at text NOT NULL,
  PRIMARY KEY (run_id, run_seq),
  UNIQUE (run_id, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX run_events_signals ON run_events (run_id, signal_id)
  WHERE signal_id IS NOT NULL;

-- Each is written once; the newest of a run counts, older ones may be cleared away.
CREATE TABLE run_snapshots (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  last_event_seq integer NOT NULL,
  status text NOT NULL CHECK (status IN
    ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED')),
  document text NOT NULL,
  projected_at text NOT NULL,
  PRIMARY KEY (run_id, last_event_seq)
) STRICT, WITHOUT ROWID;

-- Who asked for which run of which plan, and where it stands in the queue. `fence` grows with
-- every lease.
CREATE TABLE run_requests (
  run_id text PRIMARY KEY REFERENCES campaign_runs (id),
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  project text NOT NULL,
  environment text NOT NULL,
  plan_id text NOT NULL,
  plan_version text NOT NULL,
  run_request_id text NOT NULL,
  idempotency_key blob NOT NULL UNIQUE CHECK (length(idempotency_key) = 32),
  status text NOT NULL CHECK (status IN ('waiting', 'started', 'skipped')),
  needs_approval integer NOT NULL DEFAULT 0,
  approved_by text,
  reason text,
  lease_owner text,
  lease_expires_at text,
  fence integer NOT NULL DEFAULT 0,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  UNIQUE (tenant_id, project, environment, plan_id, plan_version, run_request_id)
) STRICT;
CREATE INDEX run_requests_waiting ON run_requests (tenant_id, workspace_id, run_id)
  WHERE status = 'waiting' AND needs_approval = 0;

-- Who hears of run events, and which one process tells each of them now. A disabled sink is told
-- nothing: what it has not heard waits.
CREATE TABLE event_bus_sinks (
  name text PRIMARY KEY,
  owner text,
  lease_expires_at text,
  published integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  disabled_at text,
  disabled_why text,
  created_at text NOT NULL
) STRICT;

-- What a sink has still to hear; the event itself stands in the log.
CREATE TABLE event_bus_outbox (
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at text NOT NULL,
  last_error text,
  created_at text NOT NULL,
  PRIMARY KEY (sink, run_id, run_seq),
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_bus_dead_letters (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL,
  error text NOT NULL,
  created_at text NOT NULL,
  redriven_at text,
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
) STRICT;
CREATE INDEX event_bus_dead_letters_by_workspace
  ON event_bus_dead_letters (tenant_id, workspace_id, id);
CREATE INDEX event_bus_dead_letters_waiting
  ON event_bus_dead_letters (sink, workspace_id, id) WHERE redriven_at IS NULL;

-- An alert stands until it is resolved; raised again meanwhile, it is counted.
CREATE TABLE alerts (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  code text NOT NULL,
  severity text NOT NULL,
  subject text NOT NULL,
  message text NOT NULL,
  detail text NOT NULL,
  times integer NOT NULL DEFAULT 1,
  raised_at text NOT NULL,
  last_seen_at text NOT NULL,
  resolved_at text
) STRICT;
CREATE INDEX alerts_by_workspace ON alerts (tenant_id, workspace_id, id);
CREATE UNIQUE INDEX alerts_standing ON alerts (code, subject, workspace_id)
  WHERE resolved_at IS NULL;

-- Runs from before the log: their rows say what their events would have been.
UPDATE campaign_runs SET approved_at = created_at;
CREATE TEMP TABLE told AS
SELECT run_id, row_number() OVER (PARTITION BY run_id ORDER BY rank, step_id) AS run_seq, type,
       emitter, step_id, payload, occurred_at
  FROM (
    SELECT id AS run_id, 1 AS rank, 'RunApproved' AS type, 'planner' AS emitter, NULL AS step_id,
           '{"adopted":true}' AS payload, created_at AS occurred_at
      FROM campaign_runs
    UNION ALL
    SELECT id, 2, 'RunStarted', 'engine', NULL,
           json_object('adopted', json('true'), 'engineRunRef', 'local/' || id), started_at
      FROM campaign_runs WHERE started_at IS NOT NULL
    UNION ALL
    SELECT run_id, 3, CASE outcome WHEN 'failed' THEN 'StepFailed' ELSE 'StepCompleted' END,
           'activity', id,
           json_object('adopted', json('true'), 'status', status, 'outcome', outcome,
                       'sent', sent, 'failed', failed, 'skipped', skipped), updated_at
      FROM job_queue WHERE run_id IS NOT NULL AND outcome IS NOT NULL
    UNION ALL
    SELECT r.id, 4, 'RunPaused', 'engine', NULL, '{"adopted":true}', p.updated_at
      FROM campaign_phases p JOIN campaign_runs r ON r.id = p.run_id
     WHERE p.state = 'paused' AND r.finished_at IS NULL
    UNION ALL
    SELECT id, 5, 'SignalAccepted', 'authorisation', NULL,
           '{"adopted":true,"signal":"CANCEL"}', stopped_at
      FROM campaign_runs WHERE stopped_at IS NOT NULL
    UNION ALL
    SELECT id, 6, CASE WHEN stopped_at IS NOT NULL THEN 'RunCancelled'
                       WHEN status = 'failed' THEN 'RunFailed' ELSE 'RunCompleted' END,
           'engine', NULL, '{"adopted":true}', finished_at
      FROM campaign_runs WHERE finished_at IS NOT NULL) history;
INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt, plan_version,
                        idempotency_key, payload, occurred_at)
SELECT run_id, run_seq, type, emitter, step_id, 1, '1',
       sha256(run_id || '|' || coalesce(step_id, '') || '|1|' || type || '|1'), payload,
       occurred_at
  FROM told;
DROP TABLE told;
UPDATE campaign_runs
   SET last_seq = (SELECT max(run_seq) FROM run_events e WHERE e.run_id = campaign_runs.id),
       status_seq = coalesce((SELECT max(run_seq) FROM run_events e
                               WHERE e.run_id = campaign_runs.id
                                 AND e.type IN ('RunStarted', 'RunCompleted', 'RunFailed',
                                                'RunCancelled')), 0),
       signals = EXISTS (SELECT 1 FROM run_events e
                          WHERE e.run_id = campaign_runs.id AND e.type IN ('RunPaused', 'SignalAccepted'));

CREATE TRIGGER run_events_no_update BEFORE UPDATE ON run_events
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;
CREATE TRIGGER run_events_no_delete BEFORE DELETE ON run_events
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;
CREATE TRIGGER run_snapshots_no_update BEFORE UPDATE ON run_snapshots
  BEGIN SELECT RAISE(ABORT, 'a snapshot never changes'); END;

-- What happened goes to every sink's outbox with it; where there is no sink, nowhere.
CREATE TRIGGER run_events_told AFTER INSERT ON run_events
  BEGIN
    INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
    SELECT name, NEW.run_id, NEW.run_seq, NEW.occurred_at, NEW.occurred_at FROM event_bus_sinks;
  END;

-- A run's row cannot say what its log does not.
CREATE TRIGGER campaign_runs_follow_their_log BEFORE UPDATE OF status ON campaign_runs
  WHEN OLD.status <> NEW.status AND NOT EXISTS (
    SELECT 1 FROM run_events e
     WHERE e.run_id = NEW.id AND e.run_seq = NEW.status_seq
       AND CASE NEW.status WHEN 'running' THEN e.type = 'RunStarted'
                           WHEN 'completed' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'partial' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'failed' THEN e.type IN ('RunFailed', 'RunCancelled') END)
  BEGIN SELECT RAISE(ABORT, 'a run''s status comes with its event'); END;

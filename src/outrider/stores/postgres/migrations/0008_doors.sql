-- The door of each target at each URL, as all workers of this database know it: its token bucket,
-- whether it is open, and how many calls it takes at once. A workspace has a door of its own for
-- what its own messages may have caused; everybody's has the empty workspace.
DROP TABLE target_states;
CREATE TABLE target_doors (
  submission_target text NOT NULL,
  gateway_url text NOT NULL,
  workspace_id text NOT NULL DEFAULT '',
  tokens double precision NOT NULL,
  refilled_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'throttled', 'down')),
  closed_at timestamptz,
  opens_at timestamptz,
  probe_ends_at timestamptz,
  epoch bigint NOT NULL DEFAULT 0,
  step integer NOT NULL DEFAULT 0,
  failures integer NOT NULL DEFAULT 0,
  slots integer CHECK (slots > 0),
  slots_at timestamptz,
  reason text,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (submission_target, gateway_url, workspace_id),
  CHECK ((state = 'open') = (opens_at IS NULL))
);

-- Which part of a door's slots each worker has, while the door has fewer than workers want.
CREATE TABLE door_shares (
  submission_target text NOT NULL,
  gateway_url text NOT NULL,
  worker_id text NOT NULL,
  slots integer NOT NULL,
  wanted integer NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (submission_target, gateway_url, worker_id)
);

-- Targets that somebody paused: nothing is sent through them until they are resumed.
CREATE TABLE paused_targets (
  submission_target text PRIMARY KEY,
  paused_by text NOT NULL,
  paused_at timestamptz NOT NULL
);

-- `expires_at` is the acceptance deadline of a contract that has one. `uncounted_calls` were turned
-- away by the target, which is nobody's attempt. What waits has a `next_attempt_at`, so what is
-- reserved, called and closed at once never enters the index of deadlines.
ALTER TABLE channel_outbox ADD COLUMN expires_at timestamptz;
ALTER TABLE channel_outbox ADD COLUMN uncounted_calls integer NOT NULL DEFAULT 0;
UPDATE channel_outbox o
   SET expires_at = coalesce(o.due_at, o.created_at)
                    + make_interval(secs => (c.document ->> 'maxAcceptanceSeconds')::float)
  FROM contract_snapshots c
 WHERE c.id = o.contract_id AND o.status = 'queued' AND c.document ->> 'policy' = 'deadline';
CREATE INDEX channel_outbox_expiring ON channel_outbox (expires_at)
  WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL;
DROP INDEX channel_outbox_in_lane;
CREATE INDEX channel_outbox_in_lane ON channel_outbox (job_id, next_attempt_at, id)
  WHERE run_id IS NULL AND next_attempt_at IS NOT NULL;

-- Jobs wait in groups, one of each mode, workspace and target, and workers take from them in turn.
-- `suspension_seen`: the worker that holds the job knows of its pause or stop, and begins no call.
ALTER TABLE job_queue ADD COLUMN mode text NOT NULL DEFAULT 'batch'
  CHECK (mode IN ('realtime', 'batch'));
ALTER TABLE job_queue ADD COLUMN suspension_seen boolean NOT NULL DEFAULT false;
ALTER TABLE job_queue ADD COLUMN queue_group text;
UPDATE job_queue SET queue_group = mode || '/' || workspace_id || '/' || submission_target
 WHERE run_id IS NOT NULL;
CREATE INDEX job_queue_groups ON job_queue (queue_group, run_at, id)
  WHERE status = 'queued' AND NOT paused AND run_id IS NOT NULL;
CREATE INDEX job_queue_lanes_due ON job_queue (mode, run_at, id)
  WHERE status = 'queued' AND NOT paused AND run_id IS NULL;

-- A lane that is held is told of new messages too: its holder takes them while it has calls out.
DROP TRIGGER job_queue_told ON job_queue;
CREATE TRIGGER job_queue_told AFTER UPDATE OF status, paused, run_at ON job_queue
  FOR EACH ROW WHEN ((NEW.status = 'queued' OR NEW.run_id IS NULL) AND NOT NEW.paused
                     AND NEW.run_at IS NOT NULL
                     AND (OLD.status, OLD.paused, OLD.run_at)
                         IS DISTINCT FROM (NEW.status, NEW.paused, NEW.run_at))
  EXECUTE FUNCTION outrider_tell_work();

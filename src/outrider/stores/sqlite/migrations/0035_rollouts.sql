-- A rollout: a launch in steps. Jobs of a later step are paused until it is released; a job has the
-- members of its positions whose draw is in its range.
ALTER TABLE job_queue ADD COLUMN rollout_step integer;
ALTER TABLE job_queue ADD COLUMN first_draw integer;
ALTER TABLE job_queue ADD COLUMN last_draw integer;
ALTER TABLE job_queue ADD COLUMN awaits_step integer NOT NULL DEFAULT 0;

-- `ended_at`: everything of it was sent, and it is watched. `passed_at`: the next one was released, or
-- the run has ended. `halted_for`: the rates that paused the run during it.
CREATE TABLE rollout_steps (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  step integer NOT NULL,
  percent real NOT NULL,
  hold_seconds real NOT NULL,
  items integer NOT NULL,
  released_at text,
  released_by text,
  ended_at text,
  passed_at text,
  halted_for text NOT NULL DEFAULT '',
  PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_steps_open ON rollout_steps (run_id, step)
  WHERE released_at IS NOT NULL AND passed_at IS NULL;

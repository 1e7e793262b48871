-- A rollout: a launch in steps. Jobs of a later step are paused until it is released; a job has the
-- members of its positions whose draw is in its range.
ALTER TABLE job_queue ADD COLUMN rollout_step integer;
ALTER TABLE job_queue ADD COLUMN first_draw bigint;
ALTER TABLE job_queue ADD COLUMN last_draw bigint;
ALTER TABLE job_queue ADD COLUMN awaits_step boolean NOT NULL DEFAULT false;

-- `ended_at`: everything of it was sent, and it is watched. `passed_at`: the next one was released, or
-- the run has ended. `halted_for`: the rates that paused the run during it.
CREATE TABLE rollout_steps (
  run_id uuid NOT NULL REFERENCES campaign_runs (id),
  step integer NOT NULL,
  percent double precision NOT NULL,
  hold_seconds double precision NOT NULL,
  items integer NOT NULL,
  released_at timestamptz,
  released_by text,
  ended_at timestamptz,
  passed_at timestamptz,
  halted_for text NOT NULL DEFAULT '',
  PRIMARY KEY (run_id, step)
);
CREATE INDEX rollout_steps_open ON rollout_steps (run_id, step)
  WHERE released_at IS NOT NULL AND passed_at IS NULL;

CREATE FUNCTION outrider_draw(salt text, recipient_id text) RETURNS bigint
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT ('x' || left(encode(sha256(convert_to(salt || '|' || recipient_id, 'UTF8')), 'hex'), 14))
         ::bit(56)::bigint
$$;

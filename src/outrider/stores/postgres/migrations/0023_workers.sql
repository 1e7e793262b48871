-- Who works at this database. A process writes its row now and then; one that has not for a while is
-- frozen, cut off or dead. `targets` and `mode` are what a worker limits itself to.
CREATE TABLE workers (
  id text PRIMARY KEY,
  role text NOT NULL CHECK (role IN ('worker', 'server')),
  host text NOT NULL,
  pid integer NOT NULL,
  version text NOT NULL,
  engine text NOT NULL,
  targets json,
  mode text,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL
);
CREATE INDEX workers_seen ON workers (seen_at);

-- When the phase's figures last changed: a run that is stalled has the same ones.
ALTER TABLE campaign_phases ADD COLUMN progressed_at timestamptz;

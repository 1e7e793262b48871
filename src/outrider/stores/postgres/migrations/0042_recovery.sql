-- A database that was restored or promoted is recognised, and sends nothing until it is released.

-- Where the workers of this database found it last. What was due by `distrusted_until` may have been
-- sent by the database that this one is a copy of.
CREATE TABLE database_places (
  id integer PRIMARY KEY CHECK (id = 1),
  place text NOT NULL,
  noted_at timestamptz NOT NULL,
  distrusted_until timestamptz
);

-- One row while nothing may be sent.
CREATE TABLE quarantine (
  id integer PRIMARY KEY CHECK (id = 1),
  reason text NOT NULL,
  place text NOT NULL,
  began_at timestamptz NOT NULL
);

-- What this job has to do may have been done already, by the database that this one is a copy of.
ALTER TABLE job_queue ADD COLUMN distrusted boolean NOT NULL DEFAULT false;

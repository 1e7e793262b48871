-- The ledger's clock is the database's, and never runs backwards: `told_at` is how far it is known
-- to have come, so that a clock that is set back makes nobody wait for it to catch up.
CREATE TABLE ledger_clock (
  id integer PRIMARY KEY CHECK (id = 1),
  told_at text NOT NULL
) STRICT;

-- How often in a row a job was lost, and how many of its items had ended by the last time: more of
-- them since then are progress, and the losses before it count no more.
ALTER TABLE job_queue ADD COLUMN losses integer NOT NULL DEFAULT 0;
ALTER TABLE job_queue ADD COLUMN ended_when_lost integer NOT NULL DEFAULT 0;

-- Whose lease on which job ran out, under which fence: that worker may be frozen and not dead, and
-- so may the calls be that it had begun.
CREATE TABLE lost_leases (
  job_id text NOT NULL,
  fence integer NOT NULL,
  worker_id text NOT NULL,
  lost_at text NOT NULL,
  PRIMARY KEY (job_id, fence)
) STRICT;

-- What a provider accepted after somebody had settled the item otherwise.
CREATE TABLE late_acceptances (
  outbox_id text NOT NULL,
  attempt integer NOT NULL,
  fence integer NOT NULL,
  answered_at text NOT NULL,
  provider_message_id text,
  recorded_at text NOT NULL,
  PRIMARY KEY (outbox_id, attempt, fence)
) STRICT;
CREATE TRIGGER late_acceptances_no_update BEFORE UPDATE ON late_acceptances
  BEGIN SELECT RAISE(ABORT, 'a late acceptance never changes'); END;
CREATE TRIGGER late_acceptances_no_delete BEFORE DELETE ON late_acceptances
  BEGIN SELECT RAISE(ABORT, 'a late acceptance is never deleted'); END;

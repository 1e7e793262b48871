-- The ledger's clock is the database's, and never runs backwards: `told_at` is how far it is known
-- to have come, so that a clock that is set back makes nobody wait for it to catch up.
CREATE TABLE ledger_clock (
  id integer PRIMARY KEY CHECK (id = 1),
  told_at timestamptz NOT NULL
);

-- How often in a row a job was lost, and how many of its items had ended by the last time: more of
-- them since then are progress, and the losses before it count no more.
ALTER TABLE job_queue ADD COLUMN losses integer NOT NULL DEFAULT 0;
ALTER TABLE job_queue ADD COLUMN ended_when_lost integer NOT NULL DEFAULT 0;

-- Whose lease on which job ran out, under which fence: that worker may be frozen and not dead, and
-- so may the calls be that it had begun.
CREATE TABLE lost_leases (
  job_id uuid NOT NULL,
  fence bigint NOT NULL,
  worker_id text NOT NULL,
  lost_at timestamptz NOT NULL,
  PRIMARY KEY (job_id, fence)
);

-- What a provider accepted after somebody had settled the item otherwise.
CREATE TABLE late_acceptances (
  outbox_id uuid NOT NULL,
  attempt integer NOT NULL,
  fence bigint NOT NULL,
  answered_at timestamptz NOT NULL,
  provider_message_id text,
  recorded_at timestamptz NOT NULL,
  PRIMARY KEY (outbox_id, attempt, fence)
);
CREATE TRIGGER late_acceptances_append_only BEFORE UPDATE OR DELETE ON late_acceptances
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a late acceptance never changes');
CREATE TRIGGER late_acceptances_not_truncated BEFORE TRUNCATE ON late_acceptances
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('late acceptances are never truncated');

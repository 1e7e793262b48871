-- Retention: a run leaves its evidence bundle and a few rows; messages, events and receipts that are
-- old enough leave their keys.

-- From `retired_at` on, the run's bundle is what is known of it.
ALTER TABLE campaign_runs ADD COLUMN retired_at text;
ALTER TABLE campaign_runs ADD COLUMN retiring_until text;
CREATE INDEX campaign_runs_to_retire ON campaign_runs (finished_at, id)
  WHERE finished_at IS NOT NULL AND retired_at IS NULL;

-- `events` and `head`: up to where the run's log is in the bundle. `certificate` is the one in it.
-- `removed_at`: nothing is left to be removed.
CREATE TABLE retirements (
  run_id text PRIMARY KEY REFERENCES campaign_runs (id),
  campaign_id text NOT NULL,
  artifact_id text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  events integer NOT NULL,
  head blob,
  certificate text NOT NULL,
  retired_at text NOT NULL,
  removed_at text
) STRICT, WITHOUT ROWID;
CREATE INDEX retirements_under_way ON retirements (run_id) WHERE removed_at IS NULL;

-- What has been retired is still recognised: a repeat of it is not sent until `forget_at`.
CREATE TABLE retired_keys (
  workspace_id text NOT NULL,
  key blob NOT NULL CHECK (length(key) = 32),
  forget_at text NOT NULL,
  PRIMARY KEY (workspace_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX retired_keys_to_forget ON retired_keys (forget_at);

-- The database lets go only of what was put on this list in the same transaction, which clears it.
CREATE TABLE retiring_rows (
  id text PRIMARY KEY
) STRICT, WITHOUT ROWID;

DROP TRIGGER channel_outbox_is_kept;
CREATE TRIGGER channel_outbox_is_kept BEFORE DELETE ON channel_outbox
  WHEN OLD.status = 'queued' OR NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = OLD.id)
  BEGIN SELECT RAISE(ABORT, 'a ledger row is never deleted'); END;
DROP TRIGGER attempt_history_no_delete;
CREATE TRIGGER attempt_history_no_delete BEFORE DELETE ON attempt_history
  WHEN NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = OLD.outbox_id)
  BEGIN SELECT RAISE(ABORT, 'a closed attempt is never deleted'); END;
DROP TRIGGER late_acceptances_no_delete;
CREATE TRIGGER late_acceptances_no_delete BEFORE DELETE ON late_acceptances
  WHEN NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = OLD.outbox_id)
  BEGIN SELECT RAISE(ABORT, 'a late acceptance is never deleted'); END;
DROP TRIGGER receipts_no_delete;
CREATE TRIGGER receipts_no_delete BEFORE DELETE ON receipts
  WHEN NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = OLD.id)
  BEGIN SELECT RAISE(ABORT, 'a receipt is never deleted'); END;
DROP TRIGGER run_events_no_delete;
CREATE TRIGGER run_events_no_delete BEFORE DELETE ON run_events
  WHEN NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = OLD.run_id)
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;

-- Whose rows are gone would be sent to again: neither the run nor one of its jobs begins anew.
CREATE TRIGGER campaign_runs_retired BEFORE UPDATE OF status ON campaign_runs
  WHEN OLD.retired_at IS NOT NULL AND OLD.status <> NEW.status
  BEGIN SELECT RAISE(ABORT, 'a retired run never changes'); END;
CREATE TRIGGER job_queue_retired BEFORE UPDATE OF status ON job_queue
  WHEN OLD.outcome IS NOT NULL AND NEW.outcome IS NULL
   AND EXISTS (SELECT 1 FROM campaign_runs r WHERE r.id = OLD.run_id AND r.retired_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'a job of a retired run never changes'); END;

-- With an event go the people it names.
CREATE INDEX event_people_by_event ON event_people (domain_event_id);

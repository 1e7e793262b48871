-- Every table that this changes, in the order in which servers come to them, which may be at work.
LOCK TABLE channel_outbox, job_queue, campaign_runs, run_events IN ACCESS EXCLUSIVE MODE;

-- Retention: a run leaves its evidence bundle and a few rows; messages, events and receipts that are
-- old enough leave their keys.

-- From `retired_at` on, the run's bundle is what is known of it.
ALTER TABLE campaign_runs
  ADD COLUMN retired_at timestamptz,
  ADD COLUMN retiring_until timestamptz;
CREATE INDEX campaign_runs_to_retire ON campaign_runs (finished_at, id)
  WHERE finished_at IS NOT NULL AND retired_at IS NULL;

-- `events` and `head`: up to where the run's log is in the bundle. `certificate` is the one in it.
-- `removed_at`: nothing is left to be removed.
CREATE TABLE retirements (
  run_id uuid PRIMARY KEY REFERENCES campaign_runs (id),
  campaign_id uuid NOT NULL,
  artifact_id uuid NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  events bigint NOT NULL,
  head bytea,
  certificate text NOT NULL,
  retired_at timestamptz NOT NULL,
  removed_at timestamptz
);
CREATE INDEX retirements_under_way ON retirements (run_id) WHERE removed_at IS NULL;

-- What has been retired is still recognised: a repeat of it is not sent until `forget_at`.
CREATE TABLE retired_keys (
  workspace_id uuid NOT NULL,
  key bytea NOT NULL CHECK (octet_length(key) = 32),
  forget_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, key)
);
CREATE INDEX retired_keys_to_forget ON retired_keys (forget_at);

-- The database lets go only of what was put on this list in the same transaction, which clears it.
CREATE TABLE retiring_rows (
  id uuid PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The name of the column that is looked for, and what is said where it is not on the list.
CREATE FUNCTION outrider_let_go() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  key uuid;
BEGIN
  EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) INTO key USING OLD;
  IF NOT EXISTS (SELECT 1 FROM retiring_rows r WHERE r.id = key) THEN
    RAISE EXCEPTION '%', TG_ARGV[1] USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN OLD;
END
$$;
DROP TRIGGER channel_outbox_is_kept ON channel_outbox;
CREATE TRIGGER channel_outbox_is_kept BEFORE DELETE ON channel_outbox
  FOR EACH ROW EXECUTE FUNCTION outrider_let_go('id', 'a ledger row is never deleted');
CREATE TRIGGER channel_outbox_waiting_is_kept BEFORE DELETE ON channel_outbox
  FOR EACH ROW WHEN (OLD.status = 'queued')
  EXECUTE FUNCTION outrider_refuse('a ledger row is never deleted');
DROP TRIGGER attempt_history_append_only ON attempt_history;
CREATE TRIGGER attempt_history_append_only BEFORE UPDATE ON attempt_history
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a closed attempt never changes');
CREATE TRIGGER attempt_history_kept BEFORE DELETE ON attempt_history
  FOR EACH ROW EXECUTE FUNCTION outrider_let_go('outbox_id', 'a closed attempt never changes');
DROP TRIGGER late_acceptances_append_only ON late_acceptances;
CREATE TRIGGER late_acceptances_append_only BEFORE UPDATE ON late_acceptances
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a late acceptance never changes');
CREATE TRIGGER late_acceptances_kept BEFORE DELETE ON late_acceptances
  FOR EACH ROW EXECUTE FUNCTION outrider_let_go('outbox_id', 'a late acceptance never changes');
DROP TRIGGER receipts_append_only ON receipts;
CREATE TRIGGER receipts_append_only BEFORE UPDATE ON receipts
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a receipt never changes');
CREATE TRIGGER receipts_kept BEFORE DELETE ON receipts
  FOR EACH ROW EXECUTE FUNCTION outrider_let_go('id', 'a receipt never changes');
DROP TRIGGER run_events_append_only ON run_events;
CREATE TRIGGER run_events_append_only BEFORE UPDATE ON run_events
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('the log of a run is append-only');
CREATE TRIGGER run_events_kept BEFORE DELETE ON run_events
  FOR EACH ROW EXECUTE FUNCTION outrider_let_go('run_id', 'the log of a run is append-only');

-- Whose rows are gone would be sent to again: neither the run nor one of its jobs begins anew.
CREATE TRIGGER campaign_runs_retired BEFORE UPDATE OF status ON campaign_runs
  FOR EACH ROW WHEN (OLD.retired_at IS NOT NULL AND OLD.status <> NEW.status)
  EXECUTE FUNCTION outrider_refuse('a retired run never changes');
CREATE FUNCTION outrider_keep_retired_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM campaign_runs r
              WHERE r.id = OLD.run_id AND r.retired_at IS NOT NULL) THEN
    RAISE EXCEPTION 'a job of a retired run never changes'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER job_queue_retired BEFORE UPDATE OF status ON job_queue
  FOR EACH ROW WHEN (OLD.outcome IS NOT NULL AND NEW.outcome IS NULL)
  EXECUTE FUNCTION outrider_keep_retired_jobs();

-- With an event go the people it names.
CREATE INDEX event_people_by_event ON event_people (domain_event_id);

-- A/B variants. Each is an asset of its own, a further version of its message. A job is for those of
-- its positions whose draw for the message is in its range; one that awaits a winner is for all of
-- them, and its asset is the first variant until the winner's takes its place.
ALTER TABLE assets ADD COLUMN variant text;
ALTER TABLE job_queue ADD COLUMN first_choice integer;
ALTER TABLE job_queue ADD COLUMN last_choice integer;
ALTER TABLE job_queue ADD COLUMN awaits_winner integer NOT NULL DEFAULT 0;

CREATE TABLE run_winners (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  message_id text NOT NULL,
  asset_id text NOT NULL REFERENCES assets (id),
  variant text NOT NULL,
  decided_by text NOT NULL,
  decided_at text NOT NULL,
  PRIMARY KEY (run_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER run_winners_unchanged BEFORE UPDATE ON run_winners
  BEGIN SELECT RAISE(ABORT, 'a winner is chosen once'); END;
CREATE TRIGGER run_winners_kept BEFORE DELETE ON run_winners
  BEGIN SELECT RAISE(ABORT, 'a winner is chosen once'); END;
CREATE TRIGGER run_winners_no_replace BEFORE INSERT ON run_winners
  WHEN EXISTS (SELECT 1 FROM run_winners w
                WHERE w.run_id = NEW.run_id AND w.message_id = NEW.message_id)
  BEGIN SELECT RAISE(ABORT, 'a winner is chosen once'); END;

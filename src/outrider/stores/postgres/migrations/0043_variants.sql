-- A/B variants. Each is an asset of its own, a further version of its message. A job is for those of
-- its positions whose draw for the message is in its range; one that awaits a winner is for all of
-- them, and its asset is the first variant until the winner's takes its place.
ALTER TABLE assets ADD COLUMN variant text;
ALTER TABLE job_queue ADD COLUMN first_choice bigint;
ALTER TABLE job_queue ADD COLUMN last_choice bigint;
ALTER TABLE job_queue ADD COLUMN awaits_winner boolean NOT NULL DEFAULT false;

CREATE TABLE run_winners (
  run_id uuid NOT NULL REFERENCES campaign_runs (id),
  message_id text NOT NULL,
  asset_id uuid NOT NULL REFERENCES assets (id),
  variant text NOT NULL,
  decided_by text NOT NULL,
  decided_at timestamptz NOT NULL,
  PRIMARY KEY (run_id, message_id)
);
CREATE TRIGGER run_winners_append_only BEFORE UPDATE OR DELETE ON run_winners
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a winner is chosen once');
CREATE TRIGGER run_winners_not_truncated BEFORE TRUNCATE ON run_winners
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('a winner is chosen once');

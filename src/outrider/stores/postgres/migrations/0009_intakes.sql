-- Large audiences are written in many short transactions. Until the last of them they are an intake:
-- nobody begins the campaign meanwhile, and what a crash left of one is taken away again.
CREATE TABLE audience_intakes (
  campaign_id uuid PRIMARY KEY,
  id uuid NOT NULL,
  first_position integer NOT NULL,
  first_chunk integer NOT NULL,
  abandoned boolean NOT NULL DEFAULT false,
  expires_at timestamptz NOT NULL
);
CREATE INDEX audience_intakes_by_expiry ON audience_intakes (expires_at);

-- A new campaign's recipients are written before the campaign itself, which comes with the last.
ALTER TABLE audience_uploads DROP CONSTRAINT audience_uploads_campaign_id_fkey;

-- Large audiences are written in many short transactions. Until the last of them they are an intake:
-- nobody begins the campaign meanwhile, and what a crash left of one is taken away again.
CREATE TABLE audience_intakes (
  campaign_id text PRIMARY KEY,
  id text NOT NULL,
  first_position integer NOT NULL,
  first_chunk integer NOT NULL,
  abandoned integer NOT NULL DEFAULT 0,
  expires_at text NOT NULL
) STRICT;
CREATE INDEX audience_intakes_by_expiry ON audience_intakes (expires_at);

-- A new campaign's recipients are written before the campaign itself, which comes with the last. A
-- reference cannot be taken away from a table, so both are made anew.
CREATE TABLE members_anew (
  campaign_id text NOT NULL,
  position integer NOT NULL,
  recipient_id text NOT NULL,
  email text,
  phone text,
  push_token text,
  attributes text NOT NULL,
  message_id text,
  invalid integer NOT NULL DEFAULT 0,
  duplicate integer NOT NULL DEFAULT 0,
  PRIMARY KEY (campaign_id, position),
  UNIQUE (campaign_id, recipient_id)
) STRICT, WITHOUT ROWID;
INSERT INTO members_anew
SELECT campaign_id, position, recipient_id, email, phone, push_token, attributes, message_id, invalid,
       duplicate
  FROM audience_members;
DROP TABLE audience_members;
ALTER TABLE members_anew RENAME TO audience_members;

CREATE TABLE uploads_anew (
  campaign_id text NOT NULL,
  chunk integer NOT NULL,
  first_position integer NOT NULL,
  record_count integer NOT NULL CHECK (record_count > 0),
  records text NOT NULL,
  PRIMARY KEY (campaign_id, chunk)
) STRICT;
INSERT INTO uploads_anew SELECT campaign_id, chunk, first_position, record_count, records
  FROM audience_uploads;
DROP TABLE audience_uploads;
ALTER TABLE uploads_anew RENAME TO audience_uploads;

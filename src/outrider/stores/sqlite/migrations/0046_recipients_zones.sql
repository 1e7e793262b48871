-- The time zone of a single message's recipient, as its client gave it; quiet hours and windows follow it.
ALTER TABLE channel_outbox ADD COLUMN time_zone text;
-- What a campaign's message says of its own sender, and its attachments, as JSON; null: nothing.
ALTER TABLE assets ADD COLUMN mail text;

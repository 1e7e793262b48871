-- The way back: what providers report of messages after they were taken, and what it adds up to.

-- The inbox. A repeat of a receipt's own id for its target is not taken twice. `sender` is whose reply
-- it is, as addresses are written here, and `keyword` what that reply asks for.
CREATE TABLE receipts (
  id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  submission_target text NOT NULL,
  receipt_id text NOT NULL,
  event text NOT NULL CHECK (event IN ('delivered', 'bounced', 'complained', 'read', 'replied',
                                       'opted_out', 'opted_in', 'failed')),
  reference text,
  provider_message_id text,
  permanent boolean NOT NULL,
  reason text NOT NULL,
  sender text,
  text text,
  keyword text CHECK (keyword IN ('stop', 'start', 'help')),
  occurred_at timestamptz,
  received_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, submission_target, receipt_id)
);
CREATE INDEX receipts_by_sender ON receipts (workspace_id, sender, id) WHERE sender IS NOT NULL;
CREATE TRIGGER receipts_append_only BEFORE UPDATE OR DELETE ON receipts
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a receipt never changes');
CREATE TRIGGER receipts_not_truncated BEFORE TRUNCATE ON receipts
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('receipts are never truncated');

-- Receipts whose item is still to be found, and when to look (again). Without a time they are only
-- listed: their item was looked for often enough. `urgent` are those that may opt somebody out.
CREATE TABLE waiting_receipts (
  id uuid PRIMARY KEY,
  workspace_id uuid NOT NULL,
  submission_target text NOT NULL,
  urgent boolean NOT NULL DEFAULT false,
  looks integer NOT NULL DEFAULT 0,
  look_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX waiting_receipts_due ON waiting_receipts (look_at, id)
  WHERE look_at IS NOT NULL AND NOT urgent;
CREATE INDEX waiting_receipts_urgent ON waiting_receipts (look_at, id)
  WHERE look_at IS NOT NULL AND urgent;
CREATE INDEX waiting_receipts_unmatched ON waiting_receipts (workspace_id, id) WHERE looks > 0;
CREATE INDEX waiting_receipts_sought ON waiting_receipts (workspace_id, submission_target)
  WHERE looks > 0 AND look_at IS NOT NULL;

-- Which item a receipt is about, and how that is known.
CREATE TABLE item_receipts (
  outbox_id uuid NOT NULL,
  id uuid NOT NULL UNIQUE,
  matched_by text NOT NULL CHECK (matched_by IN ('reference', 'provider_message_id', 'person')),
  matched_at timestamptz NOT NULL,
  PRIMARY KEY (outbox_id, id)
);

-- The fold of an item's receipts: the strongest of them, by rank, time and id. `run_id` is the run in
-- whose figures it is counted; the `previous` ones are what the latest change has replaced.
CREATE TABLE deliveries (
  outbox_id uuid PRIMARY KEY,
  run_id uuid,
  state text NOT NULL CHECK (state IN ('delivered', 'bounced', 'complained', 'read', 'replied',
                                       'opted_out', 'failed')),
  permanent boolean NOT NULL,
  reason text NOT NULL,
  occurred_at timestamptz NOT NULL,
  rank integer NOT NULL,
  receipt_id text NOT NULL,
  previous_state text,
  previous_run_id uuid
) WITH (fillfactor = 80);

-- How many of a run's items that were sent have which delivery.
CREATE TABLE run_deliveries (
  run_id uuid NOT NULL,
  state text NOT NULL,
  items integer NOT NULL,
  PRIMARY KEY (run_id, state)
) WITH (fillfactor = 50);

-- What became of a target's messages, by the hour: `sent` as workers report it now and then, the
-- others with the receipts. It is for rates, not for anybody's accounting.
CREATE TABLE target_tallies (
  workspace_id uuid NOT NULL,
  submission_target text NOT NULL,
  hour_at timestamptz NOT NULL,
  sent integer NOT NULL DEFAULT 0,
  reported integer NOT NULL DEFAULT 0,
  bounced integer NOT NULL DEFAULT 0,
  complained integer NOT NULL DEFAULT 0,
  PRIMARY KEY (hour_at, workspace_id, submission_target)
) WITH (fillfactor = 50);

-- Items by the id that their provider gave them. It is a table of its own: an index of the ledger would
-- be touched by the close of every attempt.
CREATE TABLE provider_messages (
  provider_message_id text NOT NULL,
  outbox_id uuid NOT NULL,
  PRIMARY KEY (provider_message_id, outbox_id)
);
CREATE FUNCTION outrider_note_provider_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO provider_messages VALUES (NEW.provider_message_id, NEW.id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
CREATE TRIGGER channel_outbox_message_noted AFTER UPDATE OF provider_message_id ON channel_outbox
  FOR EACH ROW WHEN (length(NEW.provider_message_id) <= 512)
  EXECUTE FUNCTION outrider_note_provider_message();
INSERT INTO provider_messages
SELECT provider_message_id, id FROM channel_outbox WHERE length(provider_message_id) <= 512;

-- Whoever matches receipts is told of new ones.
CREATE FUNCTION outrider_tell_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('outrider_receipts', '');
  RETURN NULL;
END
$$;
CREATE TRIGGER waiting_receipts_told AFTER INSERT ON waiting_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_tell_receipts();

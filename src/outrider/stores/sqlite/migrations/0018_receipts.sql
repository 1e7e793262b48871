-- The way back: what providers report of messages after they were taken, and what it adds up to.

-- The inbox. A repeat of a receipt's own id for its target is not taken twice. `sender` is whose reply
-- it is, as addresses are written here, and `keyword` what that reply asks for.
CREATE TABLE receipts (
  id text NOT NULL,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  submission_target text NOT NULL,
  receipt_id text NOT NULL,
  event text NOT NULL CHECK (event IN ('delivered', 'bounced', 'complained', 'read', 'replied',
                                       'opted_out', 'opted_in', 'failed')),
  reference text,
  provider_message_id text,
  permanent integer NOT NULL,
  reason text NOT NULL,
  sender text,
  text text,
  keyword text CHECK (keyword IN ('stop', 'start', 'help')),
  occurred_at text,
  received_at text NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, submission_target, receipt_id)
) STRICT;
CREATE INDEX receipts_by_sender ON receipts (workspace_id, sender, id) WHERE sender IS NOT NULL;
CREATE TRIGGER receipts_no_update BEFORE UPDATE ON receipts
  BEGIN SELECT RAISE(ABORT, 'a receipt never changes'); END;
CREATE TRIGGER receipts_no_delete BEFORE DELETE ON receipts
  BEGIN SELECT RAISE(ABORT, 'a receipt is never deleted'); END;
CREATE TRIGGER receipts_no_replace BEFORE INSERT ON receipts
  WHEN EXISTS (SELECT 1 FROM receipts r WHERE r.workspace_id = NEW.workspace_id AND r.id = NEW.id)
    OR EXISTS (SELECT 1 FROM receipts r
                WHERE r.workspace_id = NEW.workspace_id
                  AND r.submission_target = NEW.submission_target
                  AND r.receipt_id = NEW.receipt_id)
  BEGIN
    SELECT CASE WHEN EXISTS (SELECT 1 FROM receipts r
                              WHERE r.workspace_id = NEW.workspace_id AND r.id = NEW.id)
                THEN RAISE(ABORT, 'a receipt never changes')
                ELSE RAISE(IGNORE) END;
  END;

-- Receipts whose item is still to be found, and when to look (again). Without a time they are only
-- listed: their item was looked for often enough. `urgent` are those that may opt somebody out.
CREATE TABLE waiting_receipts (
  id text PRIMARY KEY,
  workspace_id text NOT NULL,
  submission_target text NOT NULL,
  urgent integer NOT NULL DEFAULT 0,
  looks integer NOT NULL DEFAULT 0,
  look_at text
) STRICT;
CREATE INDEX waiting_receipts_due ON waiting_receipts (look_at, id)
  WHERE look_at IS NOT NULL AND NOT urgent;
CREATE INDEX waiting_receipts_urgent ON waiting_receipts (look_at, id)
  WHERE look_at IS NOT NULL AND urgent;
CREATE INDEX waiting_receipts_unmatched ON waiting_receipts (workspace_id, id) WHERE looks > 0;
CREATE INDEX waiting_receipts_sought ON waiting_receipts (workspace_id, submission_target)
  WHERE looks > 0 AND look_at IS NOT NULL;

-- Which item a receipt is about, and how that is known.
CREATE TABLE item_receipts (
  outbox_id text NOT NULL,
  id text NOT NULL UNIQUE,
  matched_by text NOT NULL CHECK (matched_by IN ('reference', 'provider_message_id', 'person')),
  matched_at text NOT NULL,
  PRIMARY KEY (outbox_id, id)
) STRICT;

-- The fold of an item's receipts: the strongest of them, by rank, time and id. `run_id` is the run in
-- whose figures it is counted; the `previous` ones are what the latest change has replaced.
CREATE TABLE deliveries (
  outbox_id text PRIMARY KEY,
  run_id text,
  state text NOT NULL CHECK (state IN ('delivered', 'bounced', 'complained', 'read', 'replied',
                                       'opted_out', 'failed')),
  permanent integer NOT NULL,
  reason text NOT NULL,
  occurred_at text NOT NULL,
  rank integer NOT NULL,
  receipt_id text NOT NULL,
  previous_state text,
  previous_run_id text
) STRICT;

-- How many of a run's items that were sent have which delivery.
CREATE TABLE run_deliveries (
  run_id text NOT NULL,
  state text NOT NULL,
  items integer NOT NULL,
  PRIMARY KEY (run_id, state)
) STRICT, WITHOUT ROWID;

-- What became of a target's messages, by the hour: `sent` as workers report it now and then, the
-- others with the receipts. It is for rates, not for anybody's accounting.
CREATE TABLE target_tallies (
  workspace_id text NOT NULL,
  submission_target text NOT NULL,
  hour_at text NOT NULL,
  sent integer NOT NULL DEFAULT 0,
  reported integer NOT NULL DEFAULT 0,
  bounced integer NOT NULL DEFAULT 0,
  complained integer NOT NULL DEFAULT 0,
  PRIMARY KEY (hour_at, workspace_id, submission_target)
) STRICT, WITHOUT ROWID;

-- Items by the id that their provider gave them.
CREATE TABLE provider_messages (
  provider_message_id text NOT NULL,
  outbox_id text NOT NULL,
  PRIMARY KEY (provider_message_id, outbox_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER channel_outbox_message_noted AFTER UPDATE OF provider_message_id ON channel_outbox
  WHEN length(NEW.provider_message_id) <= 512
  BEGIN
    INSERT INTO provider_messages VALUES (NEW.provider_message_id, NEW.id) ON CONFLICT DO NOTHING;
  END;
INSERT INTO provider_messages
SELECT provider_message_id, id FROM channel_outbox WHERE length(provider_message_id) <= 512;

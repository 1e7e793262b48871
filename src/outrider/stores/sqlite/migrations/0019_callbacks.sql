-- Where those who submit intents want to hear of them. One that said it is gone is disabled.
CREATE TABLE callback_endpoints (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  url text NOT NULL,
  disabled_at text,
  disabled_why text,
  created_at text NOT NULL,
  UNIQUE (tenant_id, workspace_id, url)
) STRICT;
ALTER TABLE channel_outbox ADD COLUMN callback_id text;

-- Lists of intents. Nothing in it ever changes, so that no close of an attempt touches it.
CREATE INDEX channel_outbox_intents ON channel_outbox (tenant_id, workspace_id, id)
  WHERE origin = 'intent';

-- What happened to single messages, for as long as somebody has still to hear of it. Those of one
-- `stream` are told to sinks in order; without a stream only the callback hears of it.
CREATE TABLE message_events (
  seq integer PRIMARY KEY AUTOINCREMENT,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  outbox_id text NOT NULL,
  stream text,
  callback_id text,
  type text NOT NULL,
  occurred_at text NOT NULL,
  recorded_at text NOT NULL,
  data text NOT NULL,
  contract_version text NOT NULL DEFAULT '1.1'
) STRICT;

-- A queue of the bus holds run events, or message events where its name has an '@': `NAME@messages`
-- for a sink, `@callbacks` for all callbacks. So `run_id` and `run_seq` are a place in either, and
-- the tables are made anew without their foreign key.
DROP TRIGGER run_events_told;
CREATE TABLE event_bus_outbox_anew (
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at text NOT NULL,
  last_error text,
  created_at text NOT NULL,
  PRIMARY KEY (sink, run_id, run_seq)
) STRICT, WITHOUT ROWID;
INSERT INTO event_bus_outbox_anew (sink, run_id, run_seq, attempts, due_at, last_error, created_at)
SELECT sink, run_id, run_seq, attempts, due_at, last_error, created_at FROM event_bus_outbox;
DROP TABLE event_bus_outbox;
ALTER TABLE event_bus_outbox_anew RENAME TO event_bus_outbox;
CREATE INDEX event_bus_outbox_messages ON event_bus_outbox (run_seq) WHERE instr(sink, '@') > 0;

CREATE TABLE event_bus_dead_letters_anew (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL,
  error text NOT NULL,
  created_at text NOT NULL,
  redriven_at text
) STRICT;
INSERT INTO event_bus_dead_letters_anew (id, tenant_id, workspace_id, sink, run_id, run_seq,
                                         attempts, error, created_at, redriven_at)
SELECT id, tenant_id, workspace_id, sink, run_id, run_seq, attempts, error, created_at, redriven_at
  FROM event_bus_dead_letters;
DROP TABLE event_bus_dead_letters;
ALTER TABLE event_bus_dead_letters_anew RENAME TO event_bus_dead_letters;
CREATE INDEX event_bus_dead_letters_by_workspace
  ON event_bus_dead_letters (tenant_id, workspace_id, id);
CREATE INDEX event_bus_dead_letters_waiting
  ON event_bus_dead_letters (sink, workspace_id, id) WHERE redriven_at IS NULL;
CREATE INDEX event_bus_dead_letters_messages ON event_bus_dead_letters (run_seq)
  WHERE instr(sink, '@') > 0;

CREATE TRIGGER run_events_told AFTER INSERT ON run_events
  BEGIN
    INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
    SELECT name, NEW.run_id, NEW.run_seq, NEW.occurred_at, NEW.occurred_at
      FROM event_bus_sinks WHERE instr(name, '@') = 0;
  END;

CREATE TRIGGER message_events_told AFTER INSERT ON message_events
  BEGIN
    INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
    SELECT name, NEW.stream, NEW.seq, NEW.recorded_at, NEW.recorded_at
      FROM event_bus_sinks WHERE instr(name, '@') > 1 AND NEW.stream IS NOT NULL
    UNION ALL
    SELECT '@callbacks', NEW.callback_id, NEW.seq, NEW.recorded_at, NEW.recorded_at
     WHERE NEW.callback_id IS NOT NULL;
  END;

-- Whoever ends an intent, or puts it in doubt, tells its callback in the same transaction.
CREATE TRIGGER channel_outbox_tells_callback AFTER UPDATE ON channel_outbox
  WHEN NEW.callback_id IS NOT NULL AND OLD.status = 'queued'
   AND (NEW.status <> 'queued' OR (NEW.doubted_at IS NOT NULL AND OLD.doubted_at IS NULL))
  BEGIN
    INSERT INTO message_events (tenant_id, workspace_id, outbox_id, callback_id, type, occurred_at,
                                recorded_at, data)
    VALUES (
      NEW.tenant_id, NEW.workspace_id, NEW.id, NEW.callback_id,
      CASE WHEN NEW.status = 'queued' THEN 'IntentInDoubt'
           WHEN NEW.intent_status = 'ACCEPTED' THEN 'IntentAccepted'
           WHEN NEW.intent_status = 'REJECTED' THEN 'IntentRejected'
           ELSE 'IntentExhausted' END,
      NEW.updated_at, NEW.updated_at,
      json_object(
        'origin', NEW.origin, 'intentId', NEW.recipient_id, 'channel', NEW.channel,
        'submissionTarget', NEW.submission_target, 'status', NEW.intent_status,
        'finalOutcome', CASE NEW.intent_status WHEN 'ACCEPTED' THEN 'accepted'
                                               WHEN 'REJECTED' THEN NEW.reason END,
        'exhaustedReason', NEW.exhausted_reason, 'itemStatus', NEW.status, 'reason', NEW.reason,
        'attempts', NEW.attempts,
        'inDoubt', json(CASE WHEN NEW.doubted_at IS NULL THEN 'false' ELSE 'true' END),
        'wasInDoubt', json(CASE WHEN OLD.doubted_at IS NULL THEN 'false' ELSE 'true' END)));
  END;

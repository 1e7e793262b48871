-- Every table that this changes, in the order in which servers come to them, which may be at work.
LOCK TABLE channel_outbox, run_events, event_bus_sinks, event_bus_outbox, event_bus_dead_letters
  IN ACCESS EXCLUSIVE MODE;

-- Where those who submit intents want to hear of them. One that said it is gone is disabled.
CREATE TABLE callback_endpoints (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  url text NOT NULL,
  disabled_at timestamptz,
  disabled_why text,
  created_at timestamptz NOT NULL,
  UNIQUE (tenant_id, workspace_id, url)
);
ALTER TABLE channel_outbox ADD COLUMN callback_id uuid;

-- Lists of intents. Nothing in it ever changes, so that no close of an attempt touches it.
CREATE INDEX channel_outbox_intents ON channel_outbox (tenant_id, workspace_id, id)
  WHERE origin = 'intent';

-- What happened to single messages, for as long as somebody has still to hear of it. Those of one
-- `stream` are told to sinks in order; without a stream only the callback hears of it.
CREATE TABLE message_events (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  outbox_id uuid NOT NULL,
  stream uuid,
  callback_id uuid,
  type text NOT NULL,
  occurred_at timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL,
  data json NOT NULL,
  contract_version text NOT NULL DEFAULT '1.1'
);

-- A queue of the bus holds run events, or message events where its name has an '@': `NAME@messages`
-- for a sink, `@callbacks` for all callbacks. So `run_id` and `run_seq` are a place in either.
DO $$
DECLARE old record;
BEGIN
  FOR old IN SELECT conrelid::regclass AS named, conname FROM pg_constraint
   WHERE contype = 'f' AND confrelid = 'run_events'::regclass
     AND conrelid IN ('event_bus_outbox'::regclass, 'event_bus_dead_letters'::regclass)
  LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', old.named, old.conname);
  END LOOP;
END
$$;
CREATE INDEX event_bus_outbox_messages ON event_bus_outbox (run_seq) WHERE strpos(sink, '@') > 0;
CREATE INDEX event_bus_dead_letters_messages ON event_bus_dead_letters (run_seq)
  WHERE strpos(sink, '@') > 0;

CREATE OR REPLACE FUNCTION outrider_tell_sinks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
  SELECT s.name, e.run_id, e.run_seq, e.occurred_at, e.occurred_at
    FROM event_bus_sinks s CROSS JOIN told e WHERE strpos(s.name, '@') = 0;
  RETURN NULL;
END
$$;

CREATE FUNCTION outrider_tell_of_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
  SELECT s.name, e.stream, e.seq, e.recorded_at, e.recorded_at
    FROM event_bus_sinks s CROSS JOIN told e
   WHERE strpos(s.name, '@') > 1 AND e.stream IS NOT NULL
  UNION ALL
  SELECT '@callbacks', e.callback_id, e.seq, e.recorded_at, e.recorded_at
    FROM told e WHERE e.callback_id IS NOT NULL;
  RETURN NULL;
END
$$;
CREATE TRIGGER message_events_told AFTER INSERT ON message_events
  REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION outrider_tell_of_messages();

-- Whoever ends an intent, or puts it in doubt, tells its callback in the same transaction.
CREATE FUNCTION outrider_tell_callback() RETURNS trigger LANGUAGE plpgsql AS $$
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
    json_build_object(
      'origin', NEW.origin, 'intentId', NEW.recipient_id, 'channel', NEW.channel,
      'submissionTarget', NEW.submission_target, 'status', NEW.intent_status,
      'finalOutcome', CASE NEW.intent_status WHEN 'ACCEPTED' THEN 'accepted'
                                             WHEN 'REJECTED' THEN NEW.reason END,
      'exhaustedReason', NEW.exhausted_reason, 'itemStatus', NEW.status, 'reason', NEW.reason,
      'attempts', NEW.attempts, 'inDoubt', NEW.doubted_at IS NOT NULL,
      'wasInDoubt', OLD.doubted_at IS NOT NULL));
  RETURN NULL;
END
$$;
CREATE TRIGGER channel_outbox_tells_callback AFTER UPDATE ON channel_outbox
  FOR EACH ROW WHEN (NEW.callback_id IS NOT NULL AND OLD.status = 'queued'
                     AND (NEW.status <> 'queued'
                          OR (NEW.doubted_at IS NOT NULL AND OLD.doubted_at IS NULL)))
  EXECUTE FUNCTION outrider_tell_callback();

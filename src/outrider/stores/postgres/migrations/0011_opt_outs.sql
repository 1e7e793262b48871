-- A suppression says of what somebody opted out (`topic`; the empty one is everything on the channel),
-- how it is known, and whether it holds back transactional messages too. What there was before held
-- back everything, and goes on doing so unless a recipient's own link made it.
ALTER TABLE suppressions ADD COLUMN topic text NOT NULL DEFAULT '';
ALTER TABLE suppressions ADD COLUMN source text NOT NULL DEFAULT 'api'
  CHECK (source IN ('api', 'unsubscribe', 'bounce', 'complaint', 'stop', 'import'));
ALTER TABLE suppressions ADD COLUMN evidence text;
ALTER TABLE suppressions ADD COLUMN includes_transactional boolean NOT NULL DEFAULT false;
UPDATE suppressions
   SET source = CASE WHEN reason = 'unsubscribed' THEN 'unsubscribe' ELSE 'api' END,
       includes_transactional = reason <> 'unsubscribed';
ALTER TABLE suppressions DROP CONSTRAINT suppressions_pkey,
  ADD PRIMARY KEY (tenant_id, workspace_id, channel, address, topic);

-- What a message is for, where opt-outs are looked up: on every row that an attempt is opened of.
ALTER TABLE channel_outbox ADD COLUMN topic text;
ALTER TABLE channel_outbox ADD COLUMN transactional boolean NOT NULL DEFAULT false;
ALTER TABLE assets ADD COLUMN topic text;
ALTER TABLE assets ADD COLUMN transactional boolean NOT NULL DEFAULT false;
ALTER TABLE workflow_rules ADD COLUMN topic text;
ALTER TABLE workflow_rules ADD COLUMN transactional boolean NOT NULL DEFAULT false;

-- Intents have an address from now on; those that wait get it as their payload spells it.
UPDATE channel_outbox
   SET recipient_address = CASE channel
         WHEN 'push' THEN payload ->> 'token'
         WHEN 'email' THEN btrim(payload ->> 'to')
         ELSE translate(payload ->> 'to', ' ().-', '') END
 WHERE run_id IS NULL AND next_attempt_at IS NOT NULL AND origin = 'intent' AND status = 'queued'
   AND channel <> 'social'
   AND json_typeof(payload -> CASE channel WHEN 'push' THEN 'token' ELSE 'to' END) = 'string';

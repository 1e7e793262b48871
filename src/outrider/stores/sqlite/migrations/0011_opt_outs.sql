-- A suppression says of what somebody opted out (`topic`; the empty one is everything on the channel),
-- how it is known, and whether it holds back transactional messages too. What there was before held
-- back everything, and goes on doing so unless a recipient's own link made it. A primary key cannot be
-- changed, so the table is made anew.
CREATE TABLE suppressions_anew (
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  channel text NOT NULL,
  address text NOT NULL,
  reason text NOT NULL,
  created_at text NOT NULL,
  topic text NOT NULL DEFAULT '',
  source text NOT NULL DEFAULT 'api'
    CHECK (source IN ('api', 'unsubscribe', 'bounce', 'complaint', 'stop', 'import')),
  evidence text,
  includes_transactional integer NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, workspace_id, channel, address, topic)
) STRICT, WITHOUT ROWID;
INSERT INTO suppressions_anew (tenant_id, workspace_id, channel, address, reason, created_at, source,
                               includes_transactional)
SELECT tenant_id, workspace_id, channel, address, reason, created_at,
       CASE WHEN reason = 'unsubscribed' THEN 'unsubscribe' ELSE 'api' END, reason <> 'unsubscribed'
  FROM suppressions;
DROP TABLE suppressions;
ALTER TABLE suppressions_anew RENAME TO suppressions;

-- What a message is for, where opt-outs are looked up: on every row that an attempt is opened of.
ALTER TABLE channel_outbox ADD COLUMN topic text;
ALTER TABLE channel_outbox ADD COLUMN transactional integer NOT NULL DEFAULT 0;
ALTER TABLE assets ADD COLUMN topic text;
ALTER TABLE assets ADD COLUMN transactional integer NOT NULL DEFAULT 0;
ALTER TABLE workflow_rules ADD COLUMN topic text;
ALTER TABLE workflow_rules ADD COLUMN transactional integer NOT NULL DEFAULT 0;

-- Intents have an address from now on; those that wait get it as their payload spells it.
UPDATE channel_outbox
   SET recipient_address = CASE channel
         WHEN 'push' THEN payload ->> '$.token'
         WHEN 'email' THEN trim(payload ->> '$.to')
         ELSE replace(replace(replace(replace(replace(payload ->> '$.to', ' ', ''), '(', ''),
                ')', ''), '.', ''), '-', '') END
 WHERE run_id IS NULL AND next_attempt_at IS NOT NULL AND origin = 'intent' AND status = 'queued'
   AND channel <> 'social'
   AND json_type(payload, CASE channel WHEN 'push' THEN '$.token' ELSE '$.to' END) = 'text';

-- The third door: domain events become messages by the rules that a team wrote.

-- What happened in somebody's business, once by its `event_id`. `routes` says what became of it, a
-- decision for each channel and audience; it is due for routing while it is `received`.
CREATE TABLE domain_events (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  event_id text NOT NULL CHECK (event_id <> ''),
  trigger_name text NOT NULL,
  occurred_at timestamptz NOT NULL,
  subject json NOT NULL,
  variables json NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  trace_parent text,
  status text NOT NULL DEFAULT 'received' CHECK (status IN ('received', 'routed', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  route_at timestamptz,
  routes json,
  error text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (tenant_id, workspace_id, event_id),
  CHECK ((status = 'received') = (route_at IS NOT NULL))
);
CREATE INDEX domain_events_due ON domain_events (route_at, id) WHERE status = 'received';
CREATE INDEX domain_events_by_workspace ON domain_events (tenant_id, workspace_id, id);
CREATE INDEX domain_events_by_trigger ON domain_events (tenant_id, workspace_id, trigger_name, id);
CREATE INDEX domain_events_failed ON domain_events (tenant_id, workspace_id, id)
  WHERE status = 'failed';

CREATE TABLE workflow_rules (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  trigger_name text NOT NULL,
  channel text NOT NULL
    CHECK (channel IN ('email', 'sms', 'push', 'whatsapp', 'voice', 'social')),
  audience text NOT NULL,
  enabled boolean NOT NULL,
  urgent boolean NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (tenant_id, workspace_id, trigger_name, channel, audience)
);

-- `timing` is a delay, or a moment relative to one that the event names. `digest_seconds` is how
-- long events are collected for one message.
CREATE TABLE workflow_steps (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  rule_id uuid NOT NULL REFERENCES workflow_rules (id) ON DELETE CASCADE,
  step_order integer NOT NULL,
  enabled boolean NOT NULL,
  channel text NOT NULL
    CHECK (channel IN ('email', 'sms', 'push', 'whatsapp', 'voice', 'social')),
  submission_target text,
  subject text,
  body text NOT NULL,
  timing json NOT NULL,
  recipient_config json NOT NULL,
  digest_seconds integer CHECK (digest_seconds > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX workflow_steps_in_order ON workflow_steps (rule_id, step_order, created_at, id);
CREATE INDEX workflow_steps_by_workspace ON workflow_steps (tenant_id, workspace_id, id);

-- When a workspace may be heard, and how often by one person.
CREATE TABLE workflow_policies (
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  document json NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id)
);

-- Events that are collected for one message to one address; one of each step and address is open.
-- A sealed one takes no more of them; it is due, and a digester's for a while, until it is closed.
CREATE TABLE digests (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  step_id uuid NOT NULL,
  audience text NOT NULL,
  recipient_id text NOT NULL,
  address text NOT NULL,
  due_at timestamptz NOT NULL,
  entries integer NOT NULL DEFAULT 0,
  sealed_at timestamptz,
  closed_at timestamptz,
  outbox_id uuid,
  error text,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX digests_open ON digests (tenant_id, workspace_id, step_id, address)
  WHERE sealed_at IS NULL;
CREATE INDEX digests_due ON digests (due_at, id) WHERE closed_at IS NULL;

CREATE TABLE digest_entries (
  digest_id uuid NOT NULL REFERENCES digests (id),
  domain_event_id uuid NOT NULL REFERENCES domain_events (id),
  variables json NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (digest_id, domain_event_id)
);
CREATE INDEX digest_entries_by_event ON digest_entries (domain_event_id);

-- What this database signs with; made once, by whoever needs it first.
CREATE TABLE signing_keys (
  name text PRIMARY KEY,
  secret bytea NOT NULL CHECK (octet_length(secret) = 32),
  created_at timestamptz NOT NULL
);

-- A workflow's item says which event and step it is of, and when it was meant to go (`due_at`);
-- `waits_for` says what it waits for until `next_attempt_at`.
ALTER TABLE channel_outbox ADD COLUMN domain_event_id uuid;
ALTER TABLE channel_outbox ADD COLUMN step_id uuid;
ALTER TABLE channel_outbox ADD COLUMN kind text
  CHECK ((kind IS NOT NULL) = (origin = 'workflow'));
ALTER TABLE channel_outbox ADD COLUMN template text
  CHECK ((template IS NOT NULL) = (origin = 'workflow'));
ALTER TABLE channel_outbox ADD COLUMN urgent boolean NOT NULL DEFAULT false;
ALTER TABLE channel_outbox ADD COLUMN due_at timestamptz;
ALTER TABLE channel_outbox ADD COLUMN waits_for text;
CREATE INDEX channel_outbox_by_event ON channel_outbox (domain_event_id, id)
  WHERE domain_event_id IS NOT NULL;
CREATE INDEX channel_outbox_heard ON channel_outbox
  (tenant_id, workspace_id, channel, lower(recipient_address), attempt_opened_at)
  WHERE origin = 'workflow';

-- Contract 004's outbox is the ledger in its own vocabulary. What was skipped never left, which its
-- vocabulary calls failed; what is in doubt is still being processed.
CREATE VIEW notification_outbox AS
  SELECT id, tenant_id, workspace_id, kind, template, payload, recipient_address AS recipient,
         CASE WHEN status IN ('sent', 'called', 'posted') THEN 'succeeded'
              WHEN status IN ('failed', 'skipped') THEN 'failed'
              WHEN doubted_at IS NOT NULL OR attempt_opened_at IS NOT NULL THEN 'processing'
              ELSE 'pending' END AS status,
         attempts, coalesce(next_attempt_at, due_at, created_at) AS run_at,
         CASE WHEN status NOT IN ('sent', 'called', 'posted')
              THEN reason || CASE WHEN error IS NULL THEN '' ELSE ': ' || error END END AS last_error,
         waits_for, domain_event_id, step_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'workflow';

-- What happened does not change; only what became of it is added.
CREATE TRIGGER domain_events_immutable BEFORE UPDATE ON domain_events
  FOR EACH ROW WHEN (OLD.fingerprint IS DISTINCT FROM NEW.fingerprint
                     OR OLD.event_id IS DISTINCT FROM NEW.event_id
                     OR OLD.trigger_name IS DISTINCT FROM NEW.trigger_name
                     OR OLD.subject::text IS DISTINCT FROM NEW.subject::text
                     OR OLD.variables::text IS DISTINCT FROM NEW.variables::text)
  EXECUTE FUNCTION outrider_refuse('a domain event never changes');

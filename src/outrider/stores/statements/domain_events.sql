-- Domain events: accepted once per sender's id, claimed by a router, settled with routes.

-- name: insert_domain_events
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject,
                           variables, fingerprint, trace_parent, route_at, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, event_id, trigger_name, occurred_at, subject::json,
       variables::json, decode(fingerprint, 'hex'), trace_parent, :now, :now, :now
  FROM window(id uuid, event_id text, trigger_name text, occurred_at timestamptz, subject text,
              variables text, fingerprint text, trace_parent text, memory_key text) AS item
 WHERE NOT EXISTS (SELECT 1 FROM retired_keys k
                    WHERE k.workspace_id = :workspace_id AND k.key = decode(item.memory_key, 'hex'))
ON CONFLICT (tenant_id, workspace_id, event_id) DO NOTHING
RETURNING event_id;

-- name: domain_events_by_event_id
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND event_id IN window(event_id text);

-- name: domain_events_page
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (status = :status OR :status::text IS NULL)
 ORDER BY domain_events.id DESC LIMIT :most;

-- name: count_failed_events
-- Those of one trigger, or of all; counted up to a limit.
SELECT count(*)::int FROM (
  SELECT 1 FROM domain_events
   WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND status = 'failed'
     AND (trigger_name = :trigger_name OR :trigger_name::text IS NULL)
   LIMIT :most) counted;

-- name: failed_events_page
-- Those that need attention, however many others there are.
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND status = 'failed' AND id < :before
 ORDER BY domain_events.id DESC LIMIT :most;

-- name: events_of_trigger_page
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND trigger_name = :trigger_name AND id < :before
   AND (status = :status OR :status::text IS NULL)
 ORDER BY domain_events.id DESC LIMIT :most;

-- name: event_contents
SELECT subject, variables FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND event_id = :event_id;

-- name: claim_events
-- The oldest due ones, hidden from others until the lease ends: a router that dies loses nothing.
WITH due AS MATERIALIZED (
  SELECT id FROM domain_events WHERE status = 'received' AND route_at <= :now
     AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = 1)
   ORDER BY route_at, id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE domain_events AS e SET route_at = :lease_expires_at, attempts = attempts + 1
  FROM due WHERE e.id = due.id
RETURNING e.id::text, e.tenant_id::text, e.workspace_id::text, e.event_id, e.trigger_name,
          e.occurred_at, e.subject, e.variables, e.attempts, e.trace_parent, e.created_at,
          e.routes, e.error;

-- name: lock_received
-- Those not routed meanwhile; they are locked for the rest of this transaction.
SELECT id::text FROM domain_events
 WHERE id IN window(id uuid)
   AND status = 'received'
 ORDER BY domain_events.id FOR NO KEY UPDATE;

-- name: settle_events
WITH item AS window(id uuid, status text, routes text, error text)
UPDATE domain_events AS e
   SET status = item.status, routes = item.routes::json, error = item.error, route_at = NULL,
       updated_at = :now
  FROM item
 WHERE looked_up(e.id, item.id) AND e.status = 'received';

-- name: postpone_events
-- They could not be routed now, for reasons unrelated to them.
WITH item AS window(id uuid, route_at timestamptz, error text)
UPDATE domain_events AS e SET route_at = item.route_at, error = item.error, updated_at = :now
  FROM item
 WHERE looked_up(e.id, item.id) AND e.status = 'received';

-- name: keep_events
-- Their router is still working: templates may take longer than a lease.
UPDATE domain_events SET route_at = :lease_expires_at
 WHERE id IN window(id uuid)
   AND status = 'received';

-- name: reroute_event
UPDATE domain_events SET status = 'received', attempts = 0, route_at = :now, updated_at = :now
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND event_id = :event_id
   AND status = 'failed'
RETURNING id::text;

-- name: rules_of_triggers
SELECT id::text, trigger_name, channel, audience, enabled, urgent, topic, transactional
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND trigger_name IN window(trigger_name text);

-- name: steps_of_rules
SELECT id::text, rule_id::text, step_order, enabled, channel, submission_target, subject, body,
       timing, recipient_config, digest_seconds, topic, created_at
  FROM workflow_steps
 WHERE rule_id IN window(id uuid)
 ORDER BY rule_id, step_order, created_at, workflow_steps.id;

-- name: items_of_event
SELECT o.id::text, o.step_id::text, o.channel, o.recipient_id,
       o.recipient_address, o.status, o.reason, o.error, o.attempts, o.next_attempt_at, o.waits_for,
       o.doubted_at, o.template, o.submission_target, o.attempt_opened_at
  FROM channel_outbox o
 WHERE o.domain_event_id = :domain_event_id
   AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
 ORDER BY o.id LIMIT :most;

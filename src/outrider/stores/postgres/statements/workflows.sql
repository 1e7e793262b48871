-- The third door: domain events come in, are routed once, and become ledger rows.

-- name: insert_domain_events
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject,
                           variables, fingerprint, trace_parent, route_at, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, event_id, trigger_name, occurred_at, subject::json,
       variables::json, decode(fingerprint, 'hex'), trace_parent, :now, :now, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, event_id text, trigger_name text, occurred_at timestamptz, subject text,
             variables text, fingerprint text, trace_parent text)
ON CONFLICT (tenant_id, workspace_id, event_id) DO NOTHING
RETURNING event_id;

-- name: domain_events_by_event_id
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND event_id = ANY (ARRAY(SELECT event_id FROM json_to_recordset(:window)
                               AS item (event_id text)));

-- name: domain_events_page
SELECT id::text, event_id, trigger_name, occurred_at, encode(fingerprint, 'hex'), status, attempts,
       routes, error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (status = :status OR :status::text IS NULL)
 ORDER BY domain_events.id DESC LIMIT :most;

-- name: count_failed_events
-- Those of one trigger, or of all; no more than so many are counted.
SELECT count(*)::int FROM (
  SELECT 1 FROM domain_events
   WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND status = 'failed'
     AND (trigger_name = :trigger_name OR :trigger_name::text IS NULL)
   LIMIT :most) counted;

-- name: failed_events_page
-- The ones that somebody should look at, however many others there are.
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
-- The oldest due ones, out of others' sight until the lease ends: a router that dies loses nothing.
WITH due AS MATERIALIZED (
  SELECT id FROM domain_events WHERE status = 'received' AND route_at <= :now
   ORDER BY route_at, id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE domain_events AS e SET route_at = :lease_expires_at, attempts = attempts + 1
  FROM due WHERE e.id = due.id
RETURNING e.id::text, e.tenant_id::text, e.workspace_id::text, e.event_id, e.trigger_name,
          e.occurred_at, e.subject, e.variables, e.attempts, e.trace_parent, e.created_at,
          e.routes, e.error;

-- name: lock_received
-- Those that nobody has routed meanwhile; they are ours for the rest of this transaction.
SELECT id::text FROM domain_events
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND status = 'received'
 ORDER BY domain_events.id FOR NO KEY UPDATE;

-- name: settle_events
UPDATE domain_events AS e
   SET status = item.status, routes = item.routes::json, error = item.error, route_at = NULL,
       updated_at = :now
  FROM json_to_recordset(:window) AS item (id uuid, status text, routes text, error text)
 WHERE e.id = item.id AND e.status = 'received'
   AND e.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: postpone_events
-- They could not be routed now, through no fault of theirs.
UPDATE domain_events AS e SET route_at = item.route_at, error = item.error, updated_at = :now
  FROM json_to_recordset(:window) AS item (id uuid, route_at timestamptz, error text)
 WHERE e.id = item.id AND e.status = 'received'
   AND e.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: keep_events
-- Their router is still at it: templates may take longer than a lease.
UPDATE domain_events SET route_at = :lease_expires_at
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
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
   AND trigger_name = ANY (ARRAY(SELECT trigger_name FROM json_to_recordset(:window)
                                   AS item (trigger_name text)));

-- name: steps_of_rules
SELECT id::text, rule_id::text, step_order, enabled, channel, submission_target, subject, body,
       timing, recipient_config, digest_seconds, created_at
  FROM workflow_steps
 WHERE rule_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
 ORDER BY rule_id, step_order, created_at, workflow_steps.id;

-- name: insert_notifications
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
  fallback_contract_id, recipient_id, recipient_address, subject, payload, idempotency_key, kind,
  template, urgent, due_at, waits_for, domain_event_id, step_id, status, skipped, intent_status,
  reason, error, next_attempt_at, expires_at, topic, transactional, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, 'workflow', job_id, channel, provider, submission_target,
       contract_id, fallback_contract_id, recipient_id, address, subject, payload::json,
       decode(key, 'hex'), kind, template, urgent, due_at, waits_for, domain_event_id, step_id,
       status, status = 'skipped', CASE status WHEN 'queued' THEN 'PENDING' END, reason, error,
       CASE status WHEN 'queued' THEN due_at END, expires_at, topic, transactional, :now, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, job_id uuid, channel text, provider text, submission_target text,
             contract_id int, fallback_contract_id int, recipient_id text, address text,
             subject text, payload text, key text, kind text, template text, urgent boolean,
             due_at timestamptz, waits_for text, domain_event_id uuid, step_id uuid, status text,
             reason text, error text, expires_at timestamptz, topic text,
             transactional boolean)
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text;

-- name: items_of_event
SELECT o.id::text, o.step_id::text, o.channel, o.recipient_id,
       o.recipient_address, o.status, o.reason, o.error, o.attempts, o.next_attempt_at, o.waits_for,
       o.doubted_at, o.template, o.submission_target, o.attempt_opened_at
  FROM channel_outbox o
 WHERE o.domain_event_id = :domain_event_id
   AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
 ORDER BY o.id LIMIT :most;

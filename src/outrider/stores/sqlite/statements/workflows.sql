-- The third door: domain events come in, are routed once, and become ledger rows.

-- name: insert_domain_events
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject,
                           variables, fingerprint, trace_parent, route_at, created_at, updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, unhex(value ->> 6), value ->> 7, :now, :now, :now
  FROM json_each(:window) WHERE true
ON CONFLICT (tenant_id, workspace_id, event_id) DO NOTHING
RETURNING event_id;

-- name: domain_events_by_event_id
SELECT id, event_id, trigger_name, occurred_at, lower(hex(fingerprint)), status, attempts, routes,
       error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND event_id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: domain_events_page
SELECT id, event_id, trigger_name, occurred_at, lower(hex(fingerprint)), status, attempts, routes,
       error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (status = :status OR :status IS NULL)
 ORDER BY id DESC LIMIT :most;

-- name: count_failed_events
-- Those of one trigger, or of all; no more than so many are counted.
SELECT count(*) FROM (
  SELECT 1 FROM domain_events
   WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND status = 'failed'
     AND (trigger_name = :trigger_name OR :trigger_name IS NULL)
   LIMIT :most) counted;

-- name: failed_events_page
-- The ones that somebody should look at, however many others there are.
SELECT id, event_id, trigger_name, occurred_at, lower(hex(fingerprint)), status, attempts, routes,
       error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND status = 'failed' AND id < :before
 ORDER BY id DESC LIMIT :most;

-- name: events_of_trigger_page
SELECT id, event_id, trigger_name, occurred_at, lower(hex(fingerprint)), status, attempts, routes,
       error, created_at, updated_at
  FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND trigger_name = :trigger_name AND id < :before
   AND (status = :status OR :status IS NULL)
 ORDER BY id DESC LIMIT :most;

-- name: event_contents
SELECT subject, variables FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND event_id = :event_id;

-- name: claim_events
-- The oldest due ones, out of others' sight until the lease ends: a router that dies loses nothing.
UPDATE domain_events SET route_at = :lease_expires_at, attempts = attempts + 1
 WHERE id IN (SELECT id FROM domain_events WHERE status = 'received' AND route_at <= :now
               ORDER BY route_at, id LIMIT :most)
RETURNING id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject, variables,
          attempts, trace_parent, created_at, routes, error;

-- name: lock_received
-- Those that nobody has routed meanwhile; they are ours for the rest of this transaction.
SELECT id FROM domain_events
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND status = 'received';

-- name: settle_events
UPDATE domain_events AS e
   SET status = item.value ->> 1, routes = item.value ->> 2, error = item.value ->> 3,
       route_at = NULL, updated_at = :now
  FROM json_each(:window) AS item
 WHERE e.id = item.value ->> 0 AND e.status = 'received';

-- name: postpone_events
-- They could not be routed now, through no fault of theirs.
UPDATE domain_events AS e
   SET route_at = item.value ->> 1, error = item.value ->> 2, updated_at = :now
  FROM json_each(:window) AS item
 WHERE e.id = item.value ->> 0 AND e.status = 'received';

-- name: keep_events
-- Their router is still at it: templates may take longer than a lease.
UPDATE domain_events SET route_at = :lease_expires_at
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND status = 'received';

-- name: reroute_event
UPDATE domain_events SET status = 'received', attempts = 0, route_at = :now, updated_at = :now
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND event_id = :event_id
   AND status = 'failed'
RETURNING id;

-- name: rules_of_triggers
SELECT id, trigger_name, channel, audience, enabled, urgent, topic, transactional
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND trigger_name IN (SELECT value ->> 0 FROM json_each(:window));

-- name: steps_of_rules
SELECT id, rule_id, step_order, enabled, channel, submission_target, subject, body, timing,
       recipient_config, digest_seconds, created_at
  FROM workflow_steps
 WHERE rule_id IN (SELECT value ->> 0 FROM json_each(:window))
 ORDER BY rule_id, step_order, created_at, id;

-- name: insert_notifications
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
  fallback_contract_id, recipient_id, recipient_address, subject, payload, idempotency_key, kind,
  template, urgent, due_at, waits_for, domain_event_id, step_id, status, skipped, intent_status,
  reason, error, next_attempt_at, expires_at, topic, transactional, created_at, updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, 'workflow', value ->> 1, value ->> 2, value ->> 3,
       value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10,
       unhex(value ->> 11), value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16,
       value ->> 17, value ->> 18, value ->> 19, value ->> 19 = 'skipped',
       CASE value ->> 19 WHEN 'queued' THEN 'PENDING' END, value ->> 20, value ->> 21,
       CASE value ->> 19 WHEN 'queued' THEN value ->> 15 END, value ->> 22, value ->> 23,
       value ->> 24, :now, :now
  FROM json_each(:window) WHERE true
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id;

-- name: items_of_event
SELECT o.id, o.step_id, o.channel, o.recipient_id, o.recipient_address, o.status,
       o.reason, o.error, o.attempts, o.next_attempt_at, o.waits_for, o.doubted_at, o.template,
       o.submission_target, o.attempt_opened_at
  FROM channel_outbox o
 WHERE o.domain_event_id = :domain_event_id
   AND o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
 ORDER BY o.id LIMIT :most;

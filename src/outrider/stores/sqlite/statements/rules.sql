-- Rules and steps of workflows as people keep them; what the router reads is in workflows.sql.

-- name: rules_to_check
-- A window of the rules of all workspaces, each with its workspace's policy.
SELECT rule.id, rule.tenant_id, rule.workspace_id, rule.trigger_name, rule.channel,
       rule.audience, rule.enabled,
       (SELECT p.document FROM workflow_policies p
         WHERE p.tenant_id = rule.tenant_id AND p.workspace_id = rule.workspace_id)
  FROM workflow_rules rule
 WHERE rule.id > :after
 ORDER BY rule.id LIMIT :most;

-- name: triggers_in_use
-- Of a window of workspaces, whether each has ever told of each of these triggers.
SELECT w.tenant_id, w.id, item.trigger_name,
       (SELECT 1 FROM domain_events e
         WHERE e.tenant_id = w.tenant_id AND e.workspace_id = w.id
           AND e.trigger_name = item.trigger_name LIMIT 1) IS NOT NULL
  FROM (SELECT tenant_id, id FROM workspaces WHERE id > :after ORDER BY id LIMIT :most) w
 CROSS JOIN (SELECT value ->> 0 AS trigger_name FROM json_each(:window)) item
 ORDER BY w.id;

-- name: workflow_rules_page
SELECT id, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (trigger_name, channel, audience) > (:after_trigger, :after_channel, :after_audience)
 ORDER BY trigger_name, channel, audience LIMIT :most;

-- name: workflow_rules_of_trigger
SELECT id, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND trigger_name = :trigger_name
   AND (channel, audience) > (:after_channel, :after_audience)
 ORDER BY channel, audience LIMIT :most;

-- name: workflow_rule_by_id
SELECT id, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: workflow_rule_at
SELECT id, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND trigger_name = :trigger_name AND channel = :channel AND audience = :audience;

-- name: count_workflow_rules
SELECT count(*) FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: insert_workflow_rules
INSERT INTO workflow_rules (id, tenant_id, workspace_id, trigger_name, channel, audience, enabled,
                            urgent, topic, transactional, created_at, updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, :now, :now
  FROM json_each(:window);

-- name: update_workflow_rules
UPDATE workflow_rules
   SET trigger_name = item.value ->> 1, channel = item.value ->> 2, audience = item.value ->> 3,
       enabled = item.value ->> 4, urgent = item.value ->> 5, topic = item.value ->> 6,
       transactional = item.value ->> 7, updated_at = :now
  FROM json_each(:window) item
 WHERE workflow_rules.id = item.value ->> 0
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: delete_workflow_rules
-- Their steps go with them.
DELETE FROM workflow_rules
 WHERE id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: workflow_steps_in_order
SELECT s.id, s.rule_id, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.rule_id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND +s.tenant_id = :tenant_id AND +s.workspace_id = :workspace_id
 ORDER BY s.rule_id, s.step_order, s.created_at, s.id;

-- name: workflow_steps_page
SELECT s.id, s.rule_id, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id AND s.id > :after
 ORDER BY s.id LIMIT :most;

-- name: workflow_step_by_id
SELECT s.id, s.rule_id, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.id = :id AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id;

-- name: insert_workflow_steps
INSERT INTO workflow_steps (id, tenant_id, workspace_id, rule_id, step_order, enabled, channel,
                            submission_target, subject, body, timing, recipient_config,
                            digest_seconds, created_at, updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
       :now
  FROM json_each(:window);

-- name: update_workflow_steps
UPDATE workflow_steps
   SET step_order = item.value ->> 1, enabled = item.value ->> 2, channel = item.value ->> 3,
       submission_target = item.value ->> 4, subject = item.value ->> 5, body = item.value ->> 6,
       timing = item.value ->> 7, recipient_config = item.value ->> 8,
       digest_seconds = item.value ->> 9, updated_at = :now
  FROM json_each(:window) item
 WHERE workflow_steps.id = item.value ->> 0
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: delete_workflow_steps
DELETE FROM workflow_steps
 WHERE id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

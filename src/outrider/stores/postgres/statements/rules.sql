-- Rules and steps of workflows as people keep them; what the router reads is in workflows.sql.

-- name: rules_to_check
-- A window of the rules of all workspaces, each with its workspace's policy.
SELECT rule.id::text, rule.tenant_id::text, rule.workspace_id::text, rule.trigger_name, rule.channel,
       rule.audience, rule.enabled,
       (SELECT p.document::text FROM workflow_policies p
         WHERE p.tenant_id = rule.tenant_id AND p.workspace_id = rule.workspace_id)
  FROM workflow_rules rule
 WHERE rule.id > :after
 ORDER BY rule.id LIMIT :most;

-- name: triggers_in_use
-- Of a window of workspaces, whether each has ever told of each of these triggers.
SELECT w.tenant_id::text, w.id::text, item.trigger_name,
       (SELECT 1 FROM domain_events e
         WHERE e.tenant_id = w.tenant_id AND e.workspace_id = w.id
           AND e.trigger_name = item.trigger_name LIMIT 1) IS NOT NULL
  FROM (SELECT tenant_id, id FROM workspaces WHERE id > :after ORDER BY id LIMIT :most) w
 CROSS JOIN json_to_recordset(:window) AS item (trigger_name text)
 ORDER BY w.id;

-- name: workflow_rules_page
SELECT id::text, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (trigger_name, channel, audience) > (:after_trigger, :after_channel, :after_audience)
 ORDER BY trigger_name, channel, audience LIMIT :most;

-- name: workflow_rules_of_trigger
SELECT id::text, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND trigger_name = :trigger_name
   AND (channel, audience) > (:after_channel, :after_audience)
 ORDER BY channel, audience LIMIT :most;

-- name: workflow_rule_by_id
SELECT id::text, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, created_at, updated_at
  FROM workflow_rules
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: workflow_rule_at
SELECT id::text, trigger_name, channel, audience, enabled, urgent, topic,
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
SELECT id, :tenant_id, :workspace_id, trigger_name, channel, audience, enabled, urgent, topic,
       transactional, :now, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, trigger_name text, channel text, audience text, enabled boolean,
             urgent boolean, topic text, transactional boolean);

-- name: update_workflow_rules
UPDATE workflow_rules r
   SET trigger_name = item.trigger_name, channel = item.channel, audience = item.audience,
       enabled = item.enabled, urgent = item.urgent, topic = item.topic,
       transactional = item.transactional, updated_at = :now
  FROM json_to_recordset(:window)
    AS item (id uuid, trigger_name text, channel text, audience text, enabled boolean,
             urgent boolean, topic text, transactional boolean)
 WHERE r.id = item.id AND r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id
   AND r.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: delete_workflow_rules
-- Their steps go with them.
DELETE FROM workflow_rules
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: workflow_steps_in_order
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.rule_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
 ORDER BY s.rule_id, s.step_order, s.created_at, s.id;

-- name: workflow_steps_page
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id AND s.id > :after
 ORDER BY s.id LIMIT :most;

-- name: workflow_step_by_id
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.id = :id AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id;

-- name: insert_workflow_steps
INSERT INTO workflow_steps (id, tenant_id, workspace_id, rule_id, step_order, enabled, channel,
                            submission_target, subject, body, timing, recipient_config,
                            digest_seconds, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, rule_id, step_order, enabled, channel, submission_target,
       subject, body, timing::json, recipient_config::json, digest_seconds, created_at, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, rule_id uuid, step_order int, enabled boolean, channel text,
             submission_target text, subject text, body text, timing text, recipient_config text,
             digest_seconds int, created_at timestamptz);

-- name: update_workflow_steps
UPDATE workflow_steps s
   SET step_order = item.step_order, enabled = item.enabled, channel = item.channel,
       submission_target = item.submission_target, subject = item.subject, body = item.body,
       timing = item.timing::json, recipient_config = item.recipient_config::json,
       digest_seconds = item.digest_seconds, updated_at = :now
  FROM json_to_recordset(:window)
    AS item (id uuid, step_order int, enabled boolean, channel text, submission_target text,
             subject text, body text, timing text, recipient_config text, digest_seconds int)
 WHERE s.id = item.id AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
   AND s.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: delete_workflow_steps
DELETE FROM workflow_steps
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

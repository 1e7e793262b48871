-- Rules and steps: read in pages, and changed by applying a diff, with its author recorded.

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
  FROM window(id uuid, trigger_name text, channel text, audience text, enabled boolean,
              urgent boolean, topic text, transactional boolean) AS item;

-- name: update_workflow_rules
WITH item AS window(id uuid, trigger_name text, channel text, audience text, enabled boolean,
                    urgent boolean, topic text, transactional boolean)
UPDATE workflow_rules AS r
   SET trigger_name = item.trigger_name, channel = item.channel, audience = item.audience,
       enabled = item.enabled, urgent = item.urgent, topic = item.topic,
       transactional = item.transactional, updated_at = :now
  FROM item
 WHERE looked_up(r.id, item.id) AND r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id;

-- name: delete_workflow_rules
-- Their steps are deleted with them.
DELETE FROM workflow_rules
 WHERE id IN window(id uuid)
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: workflow_steps_in_order
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.topic,
       s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.rule_id IN window(id uuid)
   AND {sqlite: +}s.tenant_id = :tenant_id AND {sqlite: +}s.workspace_id = :workspace_id
 ORDER BY s.rule_id, s.step_order, s.created_at, s.id;

-- name: workflow_steps_page
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.topic,
       s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id AND s.id > :after
 ORDER BY s.id LIMIT :most;

-- name: workflow_step_by_id
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.topic,
       s.created_at, s.updated_at
  FROM workflow_steps s
 WHERE s.id = :id AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id;

-- name: insert_workflow_steps
INSERT INTO workflow_steps (id, tenant_id, workspace_id, rule_id, step_order, enabled, channel,
                            submission_target, subject, body, timing, recipient_config,
                            digest_seconds, topic, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, rule_id, step_order, enabled, channel, submission_target,
       subject, body, timing::json, recipient_config::json, digest_seconds, topic, created_at, :now
  FROM window(id uuid, rule_id uuid, step_order int, enabled boolean, channel text,
              submission_target text, subject text, body text, timing text, recipient_config text,
              digest_seconds int, topic text, created_at timestamptz) AS item;

-- name: update_workflow_steps
WITH item AS window(id uuid, step_order int, enabled boolean, channel text, submission_target text,
                    subject text, body text, timing text, recipient_config text, digest_seconds int,
                    topic text)
UPDATE workflow_steps AS s
   SET step_order = item.step_order, enabled = item.enabled, channel = item.channel,
       submission_target = item.submission_target, subject = item.subject, body = item.body,
       timing = item.timing::json, recipient_config = item.recipient_config::json,
       digest_seconds = item.digest_seconds, topic = item.topic, updated_at = :now
  FROM item
 WHERE looked_up(s.id, item.id) AND s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id;

-- name: delete_workflow_steps
DELETE FROM workflow_steps
 WHERE id IN window(id uuid)
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- What a check of all workflows reads: every workspace's rules, steps and retries, in windows.

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
-- For a window of workspaces, whether each has ever emitted each of these triggers.
SELECT w.tenant_id::text, w.id::text, item.trigger_name,
       (SELECT 1 FROM domain_events e
         WHERE e.tenant_id = w.tenant_id AND e.workspace_id = w.id
           AND e.trigger_name = item.trigger_name LIMIT 1) IS NOT NULL
  FROM (SELECT tenant_id, id FROM workspaces WHERE id > :after ORDER BY id LIMIT :most) w
 CROSS JOIN window(trigger_name text) AS item
 ORDER BY w.id;

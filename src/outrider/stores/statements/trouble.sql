-- What needs attention in a workspace, counted; and states written around their state machine.

-- name: count_trouble
-- What needs attention in a workspace: doubts, alerts, dead letters, bypassed phases, and events
-- that could not be routed.
SELECT (SELECT count(*) FROM (
          SELECT 1 FROM channel_outbox o
           WHERE o.doubted_at IS NOT NULL AND unindexed(o.tenant_id) = :tenant_id
             AND unindexed(o.workspace_id) = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM alerts
           WHERE resolved_at IS NULL AND unindexed(tenant_id) = :tenant_id
             AND unindexed(workspace_id) = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM event_bus_dead_letters
           WHERE redriven_at IS NULL AND unindexed(tenant_id) = :tenant_id
             AND unindexed(workspace_id) = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM campaign_audit_log
           WHERE event = 'phase.transition_bypassed' AND unindexed(tenant_id) = :tenant_id
             AND unindexed(workspace_id) = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM domain_events
           WHERE status = 'failed' AND tenant_id = :tenant_id::uuid
             AND workspace_id = :workspace_id::uuid
           LIMIT :most) counted)::int;

-- name: bypasses_page
SELECT a.id::text, a.created_at, a.campaign_id::text, a.detail::text FROM campaign_audit_log a
 WHERE a.event = 'phase.transition_bypassed' AND unindexed(a.tenant_id) = :tenant_id
   AND unindexed(a.workspace_id) = :workspace_id AND a.id < :before
 ORDER BY a.id DESC LIMIT :most;

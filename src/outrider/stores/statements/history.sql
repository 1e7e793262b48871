-- What the history of runs is made from, and compared with.

-- name: history_contexts
-- Whose these runs are and of what: a look-up each.
SELECT r.id::text, r.tenant_id::text,
       (SELECT t.name FROM tenants t WHERE t.id = r.tenant_id),
       r.workspace_id::text,
       (SELECT w.project FROM workspaces w WHERE w.id = r.workspace_id),
       (SELECT w.environment FROM workspaces w WHERE w.id = r.workspace_id),
       r.campaign_id::text,
       (SELECT c.name FROM campaigns c WHERE c.id = r.campaign_id),
       r.phase, r.channel, r.intended
  FROM campaign_runs r WHERE r.id IN window(run_id uuid);

-- name: history_runs
-- Runs by id, each with the length of its log.
SELECT r.id::text, r.tenant_id::text, r.workspace_id::text,
       (SELECT count(*) FROM run_events e WHERE e.run_id = r.id)::int
  FROM campaign_runs r WHERE r.id > :after ORDER BY r.id LIMIT :most;

-- name: history_queued
-- Those of these runs that have events waiting for the sink.
SELECT DISTINCT o.run_id::text FROM event_bus_outbox o
 WHERE o.sink = :sink AND o.run_id IN window(run_id uuid);

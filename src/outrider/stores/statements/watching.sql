-- What watchers ask the database: each check is one statement, over a bounded number of subjects.

-- name: open_alerts
SELECT code, subject, tenant_id::text, workspace_id::text, last_seen_at FROM alerts
 WHERE resolved_at IS NULL
   AND code IN window(code text)
 LIMIT :most;

-- name: watch_projection
-- Runs whose log has an event that no snapshot covers, and since when. A StepStarted may have been
-- spooled for long before it was appended, so the newest has to do if there is nothing else; events
-- written by a migration happened long before.
SELECT tenant_id::text, workspace_id::text, id::text, behind_at FROM (
  SELECT r.tenant_id, r.workspace_id, r.id, coalesce(
           (SELECT e.occurred_at FROM run_events e
             WHERE e.run_id = r.id AND e.run_seq > r.snapshot_seq AND e.type <> 'StepStarted'
               AND e.payload ->> 'adopted' IS NULL
             ORDER BY e.run_seq LIMIT 1),
           (SELECT e.occurred_at FROM run_events e
             WHERE e.run_id = r.id AND e.run_seq > r.snapshot_seq
               AND e.payload ->> 'adopted' IS NULL
             ORDER BY e.run_seq DESC LIMIT 1)) AS behind_at
    FROM campaign_runs r WHERE r.last_seq > r.snapshot_seq) behind
 WHERE behind_at < :before
 ORDER BY behind.id LIMIT :most;

-- name: watch_queue
-- The job that has been due for longest, of those that wait for a worker.
SELECT j.run_at FROM job_queue j
 WHERE j.status = 'queued' AND j.paused = false AND j.run_at < :before
 ORDER BY j.run_at, j.id LIMIT 1;

-- name: watch_doubts
-- Workspaces with doubts that have been left to people for long.
SELECT o.tenant_id::text, o.workspace_id::text, count(*)::int, min(c.since) AS waits_at
  FROM doubt_checks c {sqlite: CROSS} JOIN channel_outbox o ON o.id = c.outbox_id
 WHERE c.settles = 'person' AND c.since < :before
 GROUP BY unindexed(o.tenant_id), unindexed(o.workspace_id)
 LIMIT :most;

-- name: watch_events
-- Workspaces whose due domain events are not being routed, and since when: among the due ones, not
-- among all events of a workspace.
SELECT tenant_id::text, workspace_id::text, 'domain events', min(route_at) AS waits_at
  FROM domain_events
 WHERE status = 'received' AND route_at < :before
 GROUP BY unindexed(tenant_id), unindexed(workspace_id)
 LIMIT :most;

-- name: watch_bus
-- Sinks whose due events have not been sent for long.
SELECT name, due_at FROM (
  SELECT s.name, (SELECT o.due_at FROM event_bus_outbox o WHERE o.sink = s.name
                   ORDER BY o.run_id, o.run_seq LIMIT 1) AS due_at
    FROM event_bus_sinks s WHERE s.disabled_at IS NULL) sinks
 WHERE due_at < :before
 LIMIT :most;

-- name: watch_sinks
-- Sinks whose first event in line was tried in vain, and has waited for a while.
SELECT name, waits_at, attempts, last_error FROM (
  SELECT s.name,
         (SELECT o.created_at FROM event_bus_outbox o WHERE o.sink = s.name
           ORDER BY o.run_id, o.run_seq LIMIT 1) AS waits_at,
         (SELECT o.attempts FROM event_bus_outbox o WHERE o.sink = s.name
           ORDER BY o.run_id, o.run_seq LIMIT 1) AS attempts,
         (SELECT o.last_error FROM event_bus_outbox o WHERE o.sink = s.name
           ORDER BY o.run_id, o.run_seq LIMIT 1) AS last_error
    FROM event_bus_sinks s WHERE s.disabled_at IS NULL) sinks
 WHERE attempts > 0 AND waits_at < :before
 LIMIT :most;

-- name: watch_history
-- The first event in line, if it has waited for long.
SELECT waits_at, attempts, last_error FROM (
  SELECT o.created_at AS waits_at, o.attempts, o.last_error FROM event_bus_outbox o
   WHERE o.sink = :sink
   ORDER BY o.run_id, o.run_seq LIMIT 1) head
 WHERE waits_at < :before
 LIMIT :most;

-- name: watch_workflows
-- Work restarted in the engine whose job has not moved since.
SELECT a.tenant_id::text, a.workspace_id::text, a.subject, a.raised_at FROM alerts a
 WHERE a.code = 'WORKFLOW_STUCK' AND a.resolved_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM job_queue j
                    WHERE j.id = (a.detail ->> 'jobId')::uuid AND j.updated_at > a.last_seen_at)
 LIMIT :most;

-- name: watch_late_acceptances
-- What happened recently: it cannot be undone, but an operator should know.
SELECT a.tenant_id::text, a.workspace_id::text, a.subject, a.last_seen_at FROM alerts a
 WHERE a.code = 'LATE_ACCEPTANCE' AND a.resolved_at IS NULL AND a.last_seen_at >= :before
 LIMIT :most;

-- name: scope_of_job
SELECT tenant_id::text, workspace_id::text FROM job_queue WHERE id = :job_id;

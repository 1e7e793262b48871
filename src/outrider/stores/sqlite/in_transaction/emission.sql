-- What runs on the caller's own connection, inside its transaction. It does without functions that
-- came after SQLite 3.40, which Python may have been built with.

-- name: emit_event
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject,
                           variables, fingerprint, trace_parent, route_at, created_at, updated_at)
VALUES (:id, :tenant_id, :workspace_id, :event_id, :trigger_name, :occurred_at, :subject, :variables,
        :fingerprint, :trace_parent, :now, :now, :now)
ON CONFLICT (tenant_id, workspace_id, event_id) DO NOTHING
RETURNING 1;

-- name: same_event
SELECT 1 FROM domain_events
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND event_id = :event_id
   AND fingerprint = :fingerprint;

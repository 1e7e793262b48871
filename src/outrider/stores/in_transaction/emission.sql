-- Runs on the caller's own connection, inside its transaction. In Postgres every parameter is a
-- text or a time, because the caller's driver may have its own codecs for the other types; in
-- SQLite it avoids functions newer than 3.40, which Python may have been built with.

-- name: emit_event
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at, subject,
                           variables, fingerprint, trace_parent, route_at, created_at, updated_at)
SELECT :id::text::uuid, :tenant_id::text::uuid, :workspace_id::text::uuid, :event_id::text,
        :trigger_name::text, :occurred_at::timestamptz, :subject::text::json,
        :variables::text::json,
        {postgres: decode(:fingerprint::text, 'hex')} {sqlite: :fingerprint}, :trace_parent::text,
        :now::timestamptz, :now::timestamptz, :now::timestamptz
 WHERE NOT EXISTS (SELECT 1 FROM retired_keys k
                    WHERE k.workspace_id = :workspace_id::text::uuid
                      AND k.key = {postgres: decode(:memory_key::text, 'hex')} {sqlite: :memory_key})
ON CONFLICT (tenant_id, workspace_id, event_id) DO NOTHING
RETURNING 1;

-- name: same_event
SELECT 1 FROM domain_events
 WHERE tenant_id = :tenant_id::text::uuid AND workspace_id = :workspace_id::text::uuid
   AND event_id = :event_id::text
   AND fingerprint = {postgres: decode(:fingerprint::text, 'hex')} {sqlite: :fingerprint};

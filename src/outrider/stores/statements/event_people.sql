-- Whom domain events name that made no message to them.

-- name: note_event_people
INSERT INTO event_people (workspace_id, kind, address, domain_event_id)
SELECT :workspace_id, kind, address, id
  FROM window(kind text, address text, id uuid) AS item WHERE true
ON CONFLICT (workspace_id, kind, address, domain_event_id) DO NOTHING;

-- name: events_naming
SELECT p.domain_event_id::text FROM event_people p
 WHERE p.workspace_id = :workspace_id AND p.kind = :kind AND p.address = :address
 ORDER BY p.domain_event_id DESC LIMIT :most;

-- Texts that may quote a person, a window by id: read, and written without what identifies somebody.

-- name: alert_texts
SELECT a.id::text, a.message, a.detail::text FROM alerts a
 WHERE a.tenant_id = :tenant_id AND a.workspace_id = :workspace_id AND a.id > :after::uuid
 ORDER BY a.id LIMIT :most;

-- name: put_alert_texts
WITH item AS window(id uuid, text text, detail text)
UPDATE alerts AS a SET message = item.text, detail = item.detail::json
  FROM item WHERE looked_up(a.id, item.id);

-- name: job_texts
-- Of all workspaces: one window is as short as another, and few jobs failed.
SELECT j.id::text, CASE WHEN j.workspace_id = :workspace_id THEN j.last_error END, NULL::text
  FROM job_queue j WHERE j.id > :after::uuid ORDER BY j.id LIMIT :most;

-- name: put_job_texts
WITH item AS window(id uuid, text text)
UPDATE job_queue AS j SET last_error = item.text FROM item WHERE looked_up(j.id, item.id);

-- name: dead_letter_texts
SELECT d.id::text, d.error, NULL::text FROM event_bus_dead_letters d
 WHERE d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id AND d.id > :after::uuid
 ORDER BY d.id LIMIT :most;

-- name: put_dead_letter_texts
WITH item AS window(id uuid, text text)
UPDATE event_bus_dead_letters AS d SET error = item.text
  FROM item WHERE looked_up(d.id, item.id);

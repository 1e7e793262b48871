-- Dead letters of the event bus: those that a workspace has, and telling them once more.

-- name: bus_letters_page
-- Of a run event, or of a message event where the queue's name has an '@'.
SELECT d.id::text, d.sink, d.run_id::text, d.run_seq, coalesce(e.type, m.type), d.attempts, d.error,
       d.created_at, d.redriven_at, m.outbox_id::text
  FROM event_bus_dead_letters d
 {sqlite: LEFT JOIN run_events e
    ON strpos(d.sink, '@') = 0 AND e.run_id = d.run_id AND e.run_seq = d.run_seq
  LEFT JOIN message_events m ON strpos(d.sink, '@') > 0 AND m.seq = d.run_seq}
 {postgres: LEFT JOIN LATERAL (
   SELECT l.type FROM run_events l
    WHERE strpos(d.sink, '@') = 0 AND (l.run_id, l.run_seq) >= (d.run_id, d.run_seq)
    ORDER BY l.run_id, l.run_seq LIMIT 1) e ON true
  LEFT JOIN LATERAL (
   SELECT v.type, v.outbox_id FROM message_events v
    WHERE strpos(d.sink, '@') > 0 AND v.seq = d.run_seq LIMIT 1) m ON true}
 WHERE d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id AND d.id > :after
   AND (:only_waiting::boolean = false OR (d.redriven_at IS NULL) IS TRUE)
 ORDER BY d.id LIMIT :most;

-- name: bus_letter
SELECT sink, redriven_at FROM event_bus_dead_letters
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: mark_bus_letters
-- Those of these letters whose sink there still is.
UPDATE event_bus_dead_letters AS d SET redriven_at = :now
 WHERE d.id IN window(id uuid)
   AND d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id
   AND (d.redriven_at IS NULL) IS TRUE
   AND EXISTS (SELECT 1 FROM event_bus_sinks s WHERE s.name = d.sink)
RETURNING d.id::text, d.sink, d.run_id::text, d.run_seq;

-- name: requeue_bus_rows
INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
SELECT DISTINCT sink, run_id, run_seq, :now::timestamptz, :now::timestamptz
  FROM window(sink text, run_id uuid, run_seq bigint) AS item WHERE true
ON CONFLICT (sink, run_id, run_seq) DO UPDATE SET attempts = 0, due_at = excluded.due_at;

-- name: bus_letters_left
SELECT EXISTS (SELECT 1 FROM event_bus_dead_letters
                WHERE sink = :sink AND workspace_id = :workspace_id AND redriven_at IS NULL);

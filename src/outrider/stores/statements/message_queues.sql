-- Queues of the bus that hold message events: what waits in them, and what nobody waits for.

-- name: bus_any_waiting
SELECT 1 FROM event_bus_outbox WHERE sink = :sink LIMIT 1;

-- name: message_window
-- What waits of these streams, up to so many behind the first of each.
-- postgres:
SELECT o.run_id::text, o.run_seq, e.type, e.occurred_at, e.outbox_id::text, e.data,
       e.contract_version, e.tenant_id::text, e.workspace_id::text, o.attempts, o.due_at,
       c.url, (c.disabled_at IS NOT NULL)
  FROM window(run_id uuid, run_seq bigint) AS head
 CROSS JOIN LATERAL (
   SELECT w.run_id, w.run_seq, w.attempts, w.due_at FROM event_bus_outbox w
    WHERE w.sink = :sink AND w.run_id = head.run_id AND w.run_seq >= head.run_seq
    ORDER BY w.run_seq LIMIT :span) o
 CROSS JOIN LATERAL (SELECT * FROM message_events m WHERE m.seq = o.run_seq LIMIT 1) e
  LEFT JOIN LATERAL (SELECT * FROM callback_endpoints k WHERE k.id = e.callback_id LIMIT 1) c ON true
 ORDER BY o.run_id, o.run_seq;
-- sqlite:
SELECT o.run_id, o.run_seq, e.type, e.occurred_at, e.outbox_id, e.data,
       e.contract_version, e.tenant_id, e.workspace_id, o.attempts, o.due_at,
       c.url, (c.disabled_at IS NOT NULL)
  FROM window(run_id uuid, run_seq bigint) AS head
 CROSS JOIN event_bus_outbox o
    ON o.sink = :sink AND o.run_id = head.run_id
   AND o.run_seq IN (SELECT w.run_seq FROM event_bus_outbox w
                      WHERE w.sink = :sink AND w.run_id = head.run_id
                        AND w.run_seq >= head.run_seq
                      ORDER BY w.run_seq LIMIT :span)
 CROSS JOIN message_events e ON e.seq = o.run_seq
  LEFT JOIN callback_endpoints c ON c.id = e.callback_id
 ORDER BY o.run_id, o.run_seq;

-- name: lock_message_events
-- Who comes second to the last of an event waits here, and then sees that it is the last. In SQLite
-- writers come one after the other anyway.
SELECT m.seq FROM message_events m WHERE m.seq IN window(seq bigint) ORDER BY m.seq FOR UPDATE;

-- name: drop_told_message_events
-- Nobody has still to hear of them, and no dead letter is of them: a look-up of each.
DELETE FROM message_events AS m
 WHERE m.seq IN window(seq bigint)
   AND (SELECT 1 FROM event_bus_outbox o
         WHERE strpos(o.sink, '@') > 0 AND o.run_seq = m.seq LIMIT 1) IS NULL
   AND (SELECT 1 FROM event_bus_dead_letters d
         WHERE strpos(d.sink, '@') > 0 AND d.run_seq = m.seq LIMIT 1) IS NULL;

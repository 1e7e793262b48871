-- Callbacks and message events, in SQLite's dialect: what becomes of single messages after they were
-- submitted, and who has still to hear of it.

-- name: callback_endpoint_ids
SELECT c.url, c.id
  FROM json_each(:window) item
 CROSS JOIN callback_endpoints c
    ON c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id AND c.url = item.value ->> 0;

-- name: insert_callback_endpoints
-- Two servers may come with the same address at once.
INSERT INTO callback_endpoints (id, tenant_id, workspace_id, url, created_at)
SELECT item.value ->> 0, :tenant_id, :workspace_id, item.value ->> 1, :now
  FROM json_each(:window) item WHERE true
ON CONFLICT (tenant_id, workspace_id, url) DO NOTHING;

-- name: disable_callback_endpoints
UPDATE callback_endpoints SET disabled_at = :now, disabled_why = :why
 WHERE id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND disabled_at IS NULL;

-- name: enable_callback_endpoints
UPDATE callback_endpoints SET disabled_at = NULL, disabled_why = NULL
 WHERE id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND disabled_at IS NOT NULL;

-- name: message_event_subjects
-- Of these items, those that somebody wants to hear of: through their callback, or by a sink.
SELECT o.id, o.tenant_id, o.workspace_id, o.origin, o.run_id,
       (SELECT r.campaign_id FROM campaign_runs r WHERE r.id = o.run_id),
       o.domain_event_id, o.recipient_id, o.channel, o.submission_target,
       o.callback_id
  FROM channel_outbox o
 WHERE o.id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND (o.callback_id IS NOT NULL
        OR EXISTS (SELECT 1 FROM event_bus_sinks s WHERE instr(s.name, '@') > 1));

-- name: insert_message_events
-- In their order; a trigger writes them down for whoever has to hear of them.
INSERT INTO message_events (tenant_id, workspace_id, outbox_id, stream, callback_id, type,
                            occurred_at, recorded_at, data, contract_version)
SELECT item.value ->> 0, item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4,
       item.value ->> 5, item.value ->> 6, :now, item.value ->> 7, :contract_version
  FROM json_each(:window) item;

-- name: bus_any_waiting
SELECT 1 FROM event_bus_outbox WHERE sink = :sink LIMIT 1;

-- name: message_window
-- What waits of these streams, up to so many behind the first of each.
SELECT o.run_id, o.run_seq, e.type, e.occurred_at, e.outbox_id, e.data,
       e.contract_version, e.tenant_id, e.workspace_id, o.attempts, o.due_at,
       c.url, (c.disabled_at IS NOT NULL)
  FROM json_each(:window) head
 CROSS JOIN event_bus_outbox o
    ON o.sink = :sink AND o.run_id = head.value ->> 0
   AND o.run_seq IN (SELECT w.run_seq FROM event_bus_outbox w
                      WHERE w.sink = :sink AND w.run_id = head.value ->> 0
                        AND w.run_seq >= head.value ->> 1
                      ORDER BY w.run_seq LIMIT :span)
 CROSS JOIN message_events e ON e.seq = o.run_seq
  LEFT JOIN callback_endpoints c ON c.id = e.callback_id
 ORDER BY o.run_id, o.run_seq;

-- name: lock_message_events
-- Writers come one after the other here anyway.
SELECT m.seq FROM message_events m
 WHERE m.seq IN (SELECT item.value ->> 0 FROM json_each(:window) item)
 ORDER BY m.seq;

-- name: drop_told_message_events
-- Nobody has still to hear of them, and no dead letter is of them: a look-up of each.
DELETE FROM message_events
 WHERE seq IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND (SELECT 1 FROM event_bus_outbox o
         WHERE instr(o.sink, '@') > 0 AND o.run_seq = message_events.seq LIMIT 1) IS NULL
   AND (SELECT 1 FROM event_bus_dead_letters d
         WHERE instr(d.sink, '@') > 0 AND d.run_seq = message_events.seq LIMIT 1) IS NULL;

-- name: forget_message_rows
DELETE FROM event_bus_outbox
 WHERE sink = :sink
   AND (run_id, run_seq) IN (SELECT o.run_id, o.run_seq FROM event_bus_outbox o
                              WHERE o.sink = :sink LIMIT :most)
RETURNING run_seq;

-- name: forget_message_letters
DELETE FROM event_bus_dead_letters
 WHERE id IN (SELECT d.id FROM event_bus_dead_letters d
               WHERE d.sink = :sink AND d.redriven_at IS NULL LIMIT :most)
RETURNING run_seq;

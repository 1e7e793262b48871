-- Callbacks and message events, in Postgres's dialect: what becomes of single messages after they were
-- submitted, and who has still to hear of it.

-- name: callback_endpoint_ids
SELECT c.url, c.id::text
  FROM json_to_recordset(:window) AS item (url text)
 CROSS JOIN LATERAL (
   SELECT e.url, e.id FROM callback_endpoints e
    WHERE e.tenant_id = :tenant_id AND e.workspace_id = :workspace_id AND e.url = item.url
    LIMIT 1) c;

-- name: insert_callback_endpoints
-- Two servers may come with the same address at once.
INSERT INTO callback_endpoints (id, tenant_id, workspace_id, url, created_at)
SELECT id, :tenant_id, :workspace_id, url, :now
  FROM json_to_recordset(:window) AS item (id uuid, url text)
ON CONFLICT (tenant_id, workspace_id, url) DO NOTHING;

-- name: disable_callback_endpoints
UPDATE callback_endpoints c SET disabled_at = :now, disabled_why = :why
 WHERE c.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND c.disabled_at IS NULL;

-- name: enable_callback_endpoints
UPDATE callback_endpoints c SET disabled_at = NULL, disabled_why = NULL
 WHERE c.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND c.disabled_at IS NOT NULL;

-- name: message_event_subjects
-- Of these items, those that somebody wants to hear of: through their callback, or by a sink.
SELECT o.id::text, o.tenant_id::text, o.workspace_id::text, o.origin, o.run_id::text,
       (SELECT r.campaign_id::text FROM campaign_runs r WHERE r.id = o.run_id),
       o.domain_event_id::text, o.recipient_id, o.channel, o.submission_target,
       o.callback_id::text
  FROM channel_outbox o
 WHERE o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND (o.callback_id IS NOT NULL
        OR EXISTS (SELECT 1 FROM event_bus_sinks s WHERE strpos(s.name, '@') > 1));

-- name: insert_message_events
-- In their order; a trigger writes them down for whoever has to hear of them.
INSERT INTO message_events (tenant_id, workspace_id, outbox_id, stream, callback_id, type,
                            occurred_at, recorded_at, data, contract_version)
SELECT tenant_id, workspace_id, outbox_id, stream, callback_id, type, occurred_at, :now, data::json,
       :contract_version
  FROM json_to_recordset(:window)
    AS item (tenant_id uuid, workspace_id uuid, outbox_id uuid, stream uuid, callback_id uuid,
             type text, occurred_at timestamptz, data text);

-- name: bus_any_waiting
SELECT 1 FROM event_bus_outbox WHERE sink = :sink LIMIT 1;

-- name: message_window
-- What waits of these streams, up to so many behind the first of each.
SELECT o.run_id::text, o.run_seq, e.type, e.occurred_at, e.outbox_id::text, e.data,
       e.contract_version, e.tenant_id::text, e.workspace_id::text, o.attempts, o.due_at,
       c.url, (c.disabled_at IS NOT NULL)
  FROM json_to_recordset(:window) AS head (run_id uuid, run_seq bigint)
 CROSS JOIN LATERAL (
   SELECT w.run_id, w.run_seq, w.attempts, w.due_at FROM event_bus_outbox w
    WHERE w.sink = :sink AND w.run_id = head.run_id AND w.run_seq >= head.run_seq
    ORDER BY w.run_seq LIMIT :span) o
 CROSS JOIN LATERAL (SELECT * FROM message_events m WHERE m.seq = o.run_seq LIMIT 1) e
  LEFT JOIN LATERAL (SELECT * FROM callback_endpoints k WHERE k.id = e.callback_id LIMIT 1) c ON true
 ORDER BY o.run_id, o.run_seq;

-- name: lock_message_events
-- Who comes second to the last of an event waits here, and then sees that it is the last.
SELECT m.seq FROM message_events m
 WHERE m.seq = ANY (ARRAY(SELECT seq FROM json_to_recordset(:window) AS item (seq bigint)))
 ORDER BY m.seq FOR UPDATE;

-- name: drop_told_message_events
-- Nobody has still to hear of them, and no dead letter is of them: a look-up of each.
DELETE FROM message_events m
 WHERE m.seq = ANY (ARRAY(SELECT seq FROM json_to_recordset(:window) AS item (seq bigint)))
   AND (SELECT 1 FROM event_bus_outbox o
         WHERE strpos(o.sink, '@') > 0 AND o.run_seq = m.seq LIMIT 1) IS NULL
   AND (SELECT 1 FROM event_bus_dead_letters d
         WHERE strpos(d.sink, '@') > 0 AND d.run_seq = m.seq LIMIT 1) IS NULL;

-- name: forget_message_rows
DELETE FROM event_bus_outbox
 WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM event_bus_outbox o WHERE o.sink = :sink LIMIT :most))
RETURNING run_seq;

-- name: forget_message_letters
DELETE FROM event_bus_dead_letters
 WHERE id = ANY (ARRAY(SELECT d.id FROM event_bus_dead_letters d
                        WHERE d.sink = :sink AND d.redriven_at IS NULL LIMIT :most))
RETURNING run_seq;

-- The event bus, in SQLite's dialect: who hears of run events, what they have still to hear, and
-- what they could not be told.

-- name: insert_bus_sinks
INSERT INTO event_bus_sinks (name, created_at)
SELECT item.value ->> 0, :now FROM json_each(:window) item WHERE true
ON CONFLICT (name) DO NOTHING;

-- name: bus_sinks
-- With how many events wait for each, counted up to a limit.
SELECT s.name, s.owner, s.lease_expires_at, s.published, s.failed, s.disabled_at, s.disabled_why,
       s.created_at,
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_outbox o WHERE o.sink = s.name
                               LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_dead_letters d
                               WHERE d.sink = s.name AND d.redriven_at IS NULL
                               LIMIT :counted))
  FROM event_bus_sinks s
 ORDER BY s.name;

-- name: take_bus_lease
-- One relay a sink: whoever has the lease, once it is over anybody, at once where its owner is dead.
UPDATE event_bus_sinks SET owner = :owner, lease_expires_at = :lease_expires_at
 WHERE name = :sink AND disabled_at IS NULL
   AND (owner IS NULL OR owner = :owner OR owner = :dead_owner OR lease_expires_at <= :now)
RETURNING name;

-- name: bus_lease_owner
SELECT owner FROM event_bus_sinks WHERE name = :sink AND disabled_at IS NULL;

-- name: release_bus_lease
UPDATE event_bus_sinks SET owner = NULL, lease_expires_at = NULL
 WHERE name = :sink AND owner = :owner;

-- name: bus_heads
-- The first waiting event of each run, a look-up a run however much waits behind it.
WITH RECURSIVE head (run_id, run_seq, due_at, place) AS (
  SELECT * FROM (
    SELECT run_id, run_seq, due_at, 1 FROM event_bus_outbox
     WHERE sink = :sink AND run_id > :after
     ORDER BY run_id, run_seq LIMIT 1)
  UNION ALL
  SELECT o.run_id, o.run_seq, o.due_at, head.place + 1
    FROM head JOIN event_bus_outbox o
      ON o.sink = :sink
     AND (o.run_id, o.run_seq) = (SELECT n.run_id, n.run_seq FROM event_bus_outbox n
                                   WHERE n.sink = :sink AND n.run_id > head.run_id
                                   ORDER BY n.run_id, n.run_seq LIMIT 1)
   WHERE head.place < :heads
)
SELECT run_id, run_seq, due_at FROM head;

-- name: bus_window
-- What waits of these runs, up to so many sequences behind the first.
SELECT o.run_id, o.run_seq, e.type, e.occurred_at, e.step_id, e.logical_attempt,
       e.engine_attempt, e.payload, e.emitter, e.plan_version, hex(e.idempotency_key),
       e.contract_version, o.attempts, o.due_at, c.tenant_id, c.workspace_id
  FROM json_each(:window) head
 CROSS JOIN event_bus_outbox o
    ON o.sink = :sink AND o.run_id = head.value ->> 0
   AND o.run_seq >= head.value ->> 1 AND o.run_seq < (head.value ->> 1) + :span
 CROSS JOIN run_events e ON e.run_id = o.run_id AND e.run_seq = o.run_seq
 CROSS JOIN campaign_runs c ON c.id = o.run_id
 ORDER BY o.run_id, o.run_seq;

-- name: count_bus_deliveries
-- Keeps the lease of whoever has it; the answer says whether it is still theirs.
UPDATE event_bus_sinks
   SET published = published + :published, failed = failed + :failed,
       lease_expires_at = CASE WHEN owner = :owner THEN :lease_expires_at
                               ELSE lease_expires_at END
 WHERE name = :sink
RETURNING coalesce(owner = :owner, 0);

-- name: delete_bus_rows
DELETE FROM event_bus_outbox
 WHERE sink = :sink
   AND (run_id, run_seq) IN (SELECT item.value ->> 0, item.value ->> 1
                               FROM json_each(:window) item);

-- name: delay_bus_rows
-- The rows are there, so each is found by its key and updated.
INSERT INTO event_bus_outbox (sink, run_id, run_seq, attempts, due_at, last_error, created_at)
SELECT :sink, item.value ->> 0, item.value ->> 1, 1, item.value ->> 2, item.value ->> 3, :now
  FROM json_each(:window) item WHERE true
ON CONFLICT (sink, run_id, run_seq) DO UPDATE
   SET attempts = attempts + 1, due_at = excluded.due_at, last_error = excluded.last_error;

-- name: insert_bus_letters
INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id, run_seq, attempts,
                                    error, created_at)
SELECT item.value ->> 0, item.value ->> 1, item.value ->> 2, :sink, item.value ->> 3,
       item.value ->> 4, item.value ->> 5, item.value ->> 6, :now
  FROM json_each(:window) item;

-- name: disable_bus_sink
UPDATE event_bus_sinks
   SET disabled_at = :now, disabled_why = :why, owner = NULL, lease_expires_at = NULL
 WHERE name = :sink AND disabled_at IS NULL
RETURNING name;

-- name: enable_bus_sink
UPDATE event_bus_sinks SET disabled_at = NULL, disabled_why = NULL WHERE name = :sink
RETURNING name;

-- name: bus_letters_page
-- Of a run event, or of a message event where the queue's name has an '@'.
SELECT d.id, d.sink, d.run_id, d.run_seq, coalesce(e.type, m.type), d.attempts, d.error,
       d.created_at, d.redriven_at, m.outbox_id
  FROM event_bus_dead_letters d
  LEFT JOIN run_events e
    ON instr(d.sink, '@') = 0 AND e.run_id = d.run_id AND e.run_seq = d.run_seq
  LEFT JOIN message_events m ON instr(d.sink, '@') > 0 AND m.seq = d.run_seq
 WHERE d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id AND d.id > :after
   AND (:only_waiting = 0 OR d.redriven_at IS NULL)
 ORDER BY d.id LIMIT :most;

-- name: bus_letter
SELECT sink, redriven_at FROM event_bus_dead_letters
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: mark_bus_letters
-- Those of these letters whose sink there still is.
UPDATE event_bus_dead_letters SET redriven_at = :now
 WHERE id IN (SELECT item.value ->> 0 FROM json_each(:window) item)
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id AND redriven_at IS NULL
   AND EXISTS (SELECT 1 FROM event_bus_sinks s WHERE s.name = event_bus_dead_letters.sink)
RETURNING id, sink, run_id, run_seq;

-- name: requeue_bus_rows
INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
SELECT DISTINCT item.value ->> 0, item.value ->> 1, item.value ->> 2, :now, :now
  FROM json_each(:window) item WHERE true
ON CONFLICT (sink, run_id, run_seq) DO UPDATE SET attempts = 0, due_at = excluded.due_at;

-- name: bus_letters_left
SELECT EXISTS (SELECT 1 FROM event_bus_dead_letters
                WHERE sink = :sink AND workspace_id = :workspace_id AND redriven_at IS NULL);

-- name: resolve_bus_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :sink AND workspace_id = :workspace_id AND resolved_at IS NULL;

-- name: forget_bus_sink
DELETE FROM event_bus_sinks WHERE name = :sink RETURNING name;

-- name: forget_bus_rows
DELETE FROM event_bus_outbox
 WHERE sink = :sink
   AND (run_id, run_seq) IN (SELECT o.run_id, o.run_seq FROM event_bus_outbox o
                              WHERE o.sink = :sink LIMIT :most)
RETURNING 1;

-- name: forget_bus_letters
DELETE FROM event_bus_dead_letters
 WHERE id IN (SELECT d.id FROM event_bus_dead_letters d
               WHERE d.sink = :sink AND d.redriven_at IS NULL LIMIT :most)
RETURNING 1;

-- The event bus, in Postgres's dialect: who hears of run events, what they have still to hear, and
-- what they could not be told.

-- name: insert_bus_sinks
INSERT INTO event_bus_sinks (name, created_at)
SELECT name, :now FROM json_to_recordset(:window) AS item (name text)
ON CONFLICT (name) DO NOTHING;

-- name: bus_sinks
-- With how many events wait for each, counted up to a limit.
SELECT s.name, s.owner, s.lease_expires_at, s.published, s.failed, s.disabled_at, s.disabled_why,
       s.created_at,
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_outbox o WHERE o.sink = s.name
                               LIMIT :counted) waiting)::int,
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_dead_letters d
                               WHERE d.sink = s.name AND d.redriven_at IS NULL
                               LIMIT :counted) letters)::int
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
  (SELECT run_id, run_seq, due_at, 1 FROM event_bus_outbox
    WHERE sink = :sink AND run_id > :after
    ORDER BY run_id, run_seq LIMIT 1)
  UNION ALL
  SELECT o.run_id, o.run_seq, o.due_at, head.place + 1
    FROM head
   CROSS JOIN LATERAL (
     SELECT n.run_id, n.run_seq, n.due_at FROM event_bus_outbox n
      WHERE n.sink = :sink AND n.run_id > head.run_id
      ORDER BY n.run_id, n.run_seq LIMIT 1) o
   WHERE head.place < :heads
)
SELECT run_id::text, run_seq, due_at FROM head;

-- name: bus_window
-- What waits of these runs, up to so many sequences behind the first. An event is looked up by both
-- columns of its key at once, which only the key's own index can do.
SELECT o.run_id::text, o.run_seq, e.type, e.occurred_at, e.step_id, e.logical_attempt,
       e.engine_attempt, e.payload, e.emitter, e.plan_version, encode(e.idempotency_key, 'hex'),
       e.contract_version, o.attempts, o.due_at, r.tenant_id::text, r.workspace_id::text
  FROM json_to_recordset(:window) AS head (run_id uuid, run_seq bigint)
 CROSS JOIN LATERAL (
   SELECT w.run_id, w.run_seq, w.attempts, w.due_at FROM event_bus_outbox w
    WHERE w.sink = :sink AND w.run_id = head.run_id
      AND w.run_seq >= head.run_seq AND w.run_seq < head.run_seq + :span
    ORDER BY w.run_seq LIMIT :span) o
 CROSS JOIN LATERAL (
   SELECT * FROM run_events l WHERE (l.run_id, l.run_seq) >= (o.run_id, o.run_seq)
    ORDER BY l.run_id, l.run_seq LIMIT 1) e
 CROSS JOIN LATERAL (
   SELECT c.tenant_id, c.workspace_id FROM campaign_runs c WHERE c.id = o.run_id LIMIT 1) r
 ORDER BY o.run_id, o.run_seq;

-- name: count_bus_deliveries
-- Keeps the lease of whoever has it; the answer says whether it is still theirs.
UPDATE event_bus_sinks
   SET published = published + :published, failed = failed + :failed,
       lease_expires_at = CASE WHEN owner = :owner THEN :lease_expires_at
                               ELSE lease_expires_at END
 WHERE name = :sink
RETURNING coalesce(owner = :owner, false);

-- name: delete_bus_rows
-- A look-up an item: a join could read all that waits for the sink.
DELETE FROM event_bus_outbox
 WHERE ctid = ANY (ARRAY(
         SELECT o.ctid
           FROM json_to_recordset(:window) AS item (run_id uuid, run_seq bigint)
          CROSS JOIN LATERAL (
            SELECT w.ctid FROM event_bus_outbox w
             WHERE w.sink = :sink AND w.run_id = item.run_id AND w.run_seq = item.run_seq
             LIMIT 1) o));

-- name: delay_bus_rows
-- The rows are there, so each is found by its key and updated.
INSERT INTO event_bus_outbox AS o (sink, run_id, run_seq, attempts, due_at, last_error, created_at)
SELECT :sink, run_id, run_seq, 1, due_at, error, :now
  FROM json_to_recordset(:window)
    AS item (run_id uuid, run_seq bigint, due_at timestamptz, error text)
ON CONFLICT (sink, run_id, run_seq) DO UPDATE
   SET attempts = o.attempts + 1, due_at = excluded.due_at, last_error = excluded.last_error;

-- name: insert_bus_letters
INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id, run_seq, attempts,
                                    error, created_at)
SELECT id, tenant_id, workspace_id, :sink, run_id, run_seq, attempts, error, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, tenant_id uuid, workspace_id uuid, run_id uuid, run_seq bigint,
             attempts int, error text);

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
SELECT d.id::text, d.sink, d.run_id::text, d.run_seq, coalesce(e.type, m.type), d.attempts, d.error,
       d.created_at, d.redriven_at, m.outbox_id::text
  FROM event_bus_dead_letters d
  LEFT JOIN LATERAL (
   SELECT l.type FROM run_events l
    WHERE strpos(d.sink, '@') = 0 AND (l.run_id, l.run_seq) >= (d.run_id, d.run_seq)
    ORDER BY l.run_id, l.run_seq LIMIT 1) e ON true
  LEFT JOIN LATERAL (
   SELECT v.type, v.outbox_id FROM message_events v
    WHERE strpos(d.sink, '@') > 0 AND v.seq = d.run_seq LIMIT 1) m ON true
 WHERE d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id AND d.id > :after
   AND (NOT :only_waiting::boolean OR (d.redriven_at IS NULL) IS TRUE)
 ORDER BY d.id LIMIT :most;

-- name: bus_letter
SELECT sink, redriven_at FROM event_bus_dead_letters
 WHERE id = :id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: mark_bus_letters
-- Those of these letters whose sink there still is.
UPDATE event_bus_dead_letters d SET redriven_at = :now
 WHERE d.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id
   AND (d.redriven_at IS NULL) IS TRUE
   AND EXISTS (SELECT 1 FROM event_bus_sinks s WHERE s.name = d.sink)
RETURNING d.id::text, d.sink, d.run_id::text, d.run_seq;

-- name: requeue_bus_rows
INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
SELECT DISTINCT sink, run_id, run_seq, :now::timestamptz, :now::timestamptz
  FROM json_to_recordset(:window) AS item (sink text, run_id uuid, run_seq bigint)
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
 WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM event_bus_outbox o WHERE o.sink = :sink LIMIT :most))
RETURNING 1;

-- name: forget_bus_letters
DELETE FROM event_bus_dead_letters
 WHERE id = ANY (ARRAY(SELECT d.id FROM event_bus_dead_letters d
                        WHERE d.sink = :sink AND d.redriven_at IS NULL LIMIT :most))
RETURNING 1;

-- The event bus's outbox: who relays, what is due in which order, and how telling it ended.

-- name: insert_bus_sinks
INSERT INTO event_bus_sinks (name, created_at)
SELECT name, :now FROM window(name text) AS item WHERE true
ON CONFLICT (name) DO NOTHING;

-- name: bus_sinks
-- With how many events wait for each, counted up to a limit.
SELECT s.name, s.owner, s.lease_expires_at, s.published, s.failed, s.disabled_at, s.disabled_why,
       s.created_at,
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_outbox o WHERE o.sink = s.name
                               LIMIT :counted) waiting)::int,
       (SELECT count(*) FROM (SELECT 1 FROM event_bus_dead_letters d
                               WHERE d.sink = s.name AND d.redriven_at IS NULL
                               LIMIT :counted) letters)::int,
       (SELECT min(oldest.created_at) FROM (SELECT o.created_at FROM event_bus_outbox o
                                      WHERE o.sink = s.name LIMIT :counted) oldest) AS oldest_at
  FROM event_bus_sinks s
 ORDER BY s.name;

-- name: bus_last_error
-- Of the first event in line.
SELECT o.last_error FROM event_bus_outbox o WHERE o.sink = :sink
 ORDER BY o.run_id, o.run_seq LIMIT 1;

-- name: take_bus_lease
-- One relay a sink: whoever has the lease, once it is over anybody, at once where its owner is
-- dead.
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
-- postgres:
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
-- sqlite:
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
-- What waits of these runs, up to so many sequences behind the first. An event is looked up by
-- both columns of its key at once, which only the key's own index can do.
-- postgres:
SELECT o.run_id::text, o.run_seq, e.type, e.occurred_at, e.step_id, e.logical_attempt,
       e.engine_attempt, e.payload, e.emitter, e.plan_version, encode(e.idempotency_key, 'hex'),
       e.contract_version, o.attempts, o.due_at, r.tenant_id::text, r.workspace_id::text
  FROM window(run_id uuid, run_seq bigint) AS head
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
-- sqlite:
SELECT o.run_id, o.run_seq, e.type, e.occurred_at, e.step_id, e.logical_attempt,
       e.engine_attempt, e.payload, e.emitter, e.plan_version, encode(e.idempotency_key, 'hex'),
       e.contract_version, o.attempts, o.due_at, c.tenant_id, c.workspace_id
  FROM window(run_id uuid, run_seq bigint) AS head
 CROSS JOIN event_bus_outbox o
    ON o.sink = :sink AND o.run_id = head.run_id
   AND o.run_seq >= head.run_seq AND o.run_seq < head.run_seq + :span
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
RETURNING coalesce(owner = :owner, false);

-- name: delete_bus_rows
-- A look-up an item: a join could read all that waits for the sink.
-- postgres:
DELETE FROM event_bus_outbox
 WHERE ctid = ANY (ARRAY(
         SELECT o.ctid
           FROM window(run_id uuid, run_seq bigint) AS item
          CROSS JOIN LATERAL (
            SELECT w.ctid FROM event_bus_outbox w
             WHERE w.sink = :sink AND w.run_id = item.run_id AND w.run_seq = item.run_seq
             LIMIT 1) o));
-- sqlite:
DELETE FROM event_bus_outbox
 WHERE sink = :sink
   AND (run_id, run_seq) IN (SELECT run_id, run_seq
                               FROM window(run_id uuid, run_seq bigint) AS item);

-- name: delay_bus_rows
-- The rows are there, so each is found by its key and updated.
INSERT INTO event_bus_outbox AS o (sink, run_id, run_seq, attempts, due_at, last_error, created_at)
SELECT :sink, run_id, run_seq, 1, due_at, error, :now
  FROM window(run_id uuid, run_seq bigint, due_at timestamptz, error text) AS item WHERE true
ON CONFLICT (sink, run_id, run_seq) DO UPDATE
   SET attempts = o.attempts + 1, due_at = excluded.due_at, last_error = excluded.last_error;

-- name: insert_bus_letters
INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id, run_seq, attempts,
                                    error, created_at)
SELECT id, tenant_id, workspace_id, :sink, run_id, run_seq, attempts, error, :now
  FROM window(id uuid, tenant_id uuid, workspace_id uuid, run_id uuid, run_seq bigint, attempts int,
              error text) AS item;

-- name: disable_bus_sink
UPDATE event_bus_sinks
   SET disabled_at = :now, disabled_why = :why, owner = NULL, lease_expires_at = NULL
 WHERE name = :sink AND disabled_at IS NULL
RETURNING name;

-- name: enable_bus_sink
UPDATE event_bus_sinks SET disabled_at = NULL, disabled_why = NULL WHERE name = :sink
RETURNING name;

-- name: resolve_bus_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :sink AND workspace_id = :workspace_id AND resolved_at IS NULL;

-- name: forget_bus_sink
DELETE FROM event_bus_sinks WHERE name = :sink RETURNING name;

-- name: forget_bus_rows
-- postgres:
DELETE FROM event_bus_outbox
 WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM event_bus_outbox o WHERE o.sink = :sink LIMIT :most))
RETURNING run_seq;
-- sqlite:
DELETE FROM event_bus_outbox
 WHERE sink = :sink
   AND (run_id, run_seq) IN (SELECT o.run_id, o.run_seq FROM event_bus_outbox o
                              WHERE o.sink = :sink LIMIT :most)
RETURNING run_seq;

-- name: forget_bus_letters
DELETE FROM event_bus_dead_letters
 WHERE id = ANY (ARRAY(SELECT d.id FROM event_bus_dead_letters d
                        WHERE d.sink = :sink AND d.redriven_at IS NULL LIMIT :most))
RETURNING run_seq;

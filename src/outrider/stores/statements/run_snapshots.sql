-- Stored snapshots of runs: which runs are behind their log, and how one catches up.

-- name: unprojected_runs
SELECT id::text, tenant_id::text, workspace_id::text, last_seq
  FROM campaign_runs
 WHERE last_seq > snapshot_seq AND id > :after
 ORDER BY campaign_runs.id LIMIT :most;

-- name: steps_of_run
SELECT id::text FROM job_queue WHERE run_id = :run_id ORDER BY job_queue.id LIMIT :most;

-- name: run_log_end
SELECT last_seq FROM campaign_runs WHERE id = :run_id;

-- name: newest_run_snapshot
-- The newest that covers nothing after that sequence.
SELECT document, last_event_seq FROM run_snapshots
 WHERE run_id = :run_id AND last_event_seq <= :until
 ORDER BY last_event_seq DESC LIMIT 1;

-- name: drop_run_snapshot
-- One that cannot be read.
DELETE FROM run_snapshots WHERE run_id = :run_id AND last_event_seq = :seq;

-- name: rewind_projection
-- Back to the newest remaining snapshot: the projector folds from there.
UPDATE campaign_runs
   SET snapshot_seq = coalesce((SELECT max(s.last_event_seq) FROM run_snapshots s
                                 WHERE s.run_id = :run_id), 0)
 WHERE id = :run_id;

-- name: advance_projection
-- Never backwards: of two projectors, the one that is behind changes nothing.
UPDATE campaign_runs SET snapshot_seq = :seq WHERE id = :run_id AND snapshot_seq < :seq;

-- name: insert_run_snapshot
-- Another projector may have written it: then it is identical.
INSERT INTO run_snapshots (run_id, last_event_seq, status, document, projected_at)
VALUES (:run_id, :last_event_seq, :status, :document, :now)
ON CONFLICT DO NOTHING;

-- name: prune_run_snapshots
-- All but the newest one and a number before it.
DELETE FROM run_snapshots
 WHERE run_id = :run_id
   AND last_event_seq < (SELECT s.last_event_seq FROM run_snapshots s
                          WHERE s.run_id = :run_id
                          ORDER BY s.last_event_seq DESC LIMIT 1 OFFSET :before);

-- name: oldest_unprojected
-- When the oldest event happened that no snapshot covers, over a limited number of runs that are
-- behind.
SELECT min((SELECT e.occurred_at FROM run_events e
             WHERE e.run_id = behind.id AND e.run_seq > behind.snapshot_seq
             ORDER BY e.run_seq LIMIT 1)) AS oldest_at
  FROM (SELECT id, snapshot_seq FROM campaign_runs
         WHERE last_seq > snapshot_seq
         ORDER BY id LIMIT :most) behind;

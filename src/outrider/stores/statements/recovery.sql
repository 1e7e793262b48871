-- Recovery: whether this database is where it was, and what becomes of the work of one that is not.

-- name: database_place
SELECT p.place, p.noted_at, p.releases, q.reason, q.began_at
  FROM (SELECT 1 AS id) one
  LEFT JOIN database_places p ON p.id = one.id
  LEFT JOIN quarantine q ON q.id = one.id;

-- name: note_place
INSERT INTO database_places (id, place, noted_at) VALUES (1, :place, :now)
ON CONFLICT (id) DO UPDATE
   SET place = excluded.place, noted_at = greatest(database_places.noted_at, excluded.noted_at);

-- name: quarantine_database
INSERT INTO quarantine (id, reason, place, began_at) VALUES (1, :reason, :place, :now)
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: shut_out_holders
-- Whoever holds a job holds it in the database that this one was before.
UPDATE job_queue
   SET status = 'queued', fence = fence + 1, run_at = :now, locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE status = 'locked';

-- name: jobs_to_distrust
-- In windows: what is due by then may have been done.
SELECT id::text, run_id::text FROM job_queue
 WHERE id > :after::uuid AND outcome IS NULL AND asset_id IS NOT NULL
   AND (fence > 0 OR run_at IS NULL OR run_at <= :until)
 ORDER BY job_queue.id LIMIT :most;

-- name: distrust_jobs
UPDATE job_queue SET distrusted = true, updated_at = :now
 WHERE id IN window(id uuid);

-- name: archive_restored
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, :now,
       'SENT_NO_ANSWER', 'abandoned', 'restored'
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND o.job_id = :job_id AND o.status = 'queued' AND o.attempt_opened_at IS NOT NULL
   AND o.attempt_closed_at IS NULL AND o.doubted_at IS NULL
ON CONFLICT (outbox_id, attempt, repeat) DO NOTHING;

-- name: distrust_items
-- Each may have arrived, whatever this database says.
UPDATE channel_outbox
   SET maybe_received = true, reason = 'restored',
       repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       attempt_opened_at = NULL, attempt_fence = NULL, progress = NULL, updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued'
   AND doubted_at IS NULL AND attempt_closed_at IS NULL;

-- name: lanes_to_distrust
SELECT id::text FROM job_queue WHERE id > :after::uuid AND run_id IS NULL
 ORDER BY job_queue.id LIMIT :most;

-- name: archive_restored_messages
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, :now,
       'SENT_NO_ANSWER', 'abandoned', 'restored'
  FROM channel_outbox o
 WHERE o.run_id IS NULL AND o.next_attempt_at IS NOT NULL AND o.job_id = :job_id
   AND o.status = 'queued' AND o.attempt_opened_at IS NOT NULL
   AND o.attempt_closed_at IS NULL AND o.doubted_at IS NULL
ON CONFLICT (outbox_id, attempt, repeat) DO NOTHING;

-- name: distrust_messages
WITH due AS MATERIALIZED (
  SELECT id FROM channel_outbox
   WHERE run_id IS NULL AND next_attempt_at IS NOT NULL AND job_id = :job_id
     AND next_attempt_at <= :until AND status = 'queued' AND doubted_at IS NULL
     AND attempt_closed_at IS NULL AND (attempt_opened_at IS NOT NULL OR NOT maybe_received)
   LIMIT :most
)
UPDATE channel_outbox AS o
   SET maybe_received = true, reason = 'restored',
       repeats = o.repeats + CASE WHEN o.attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       attempt_opened_at = NULL, attempt_fence = NULL, progress = NULL, updated_at = :now
  FROM due WHERE o.id = due.id
RETURNING o.id::text;

-- name: distrust_reserved
-- Reserved in this transaction for a job that is distrusted: not to be called as if it were new.
UPDATE channel_outbox
   SET maybe_received = true, reason = 'restored', attempts = 0, attempt_opened_at = NULL,
       attempt_fence = NULL, created_at = :since
 WHERE id IN window(id uuid) AND status = 'queued';

-- name: distrust_until
UPDATE database_places SET distrusted_until = :now WHERE id = 1;

-- name: count_release
UPDATE database_places SET releases = releases + 1 WHERE id = 1;

-- name: end_quarantine
DELETE FROM quarantine WHERE id = 1 RETURNING place;

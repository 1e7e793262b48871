-- In-doubt items: what is known about them, and writing a verdict with its evidence.

-- name: doubts_among
SELECT o.id::text FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.id IN window(id uuid)
   AND o.doubted_at IS NOT NULL
 ORDER BY o.id;

-- name: end_unsent
-- Evidence says that these never arrived, and the job that would have called them again has ended:
-- they are part of their run's remainder.
UPDATE channel_outbox AS o
   SET status = 'failed', intent_status = NULL, exhausted_reason = NULL, doubted_at = NULL,
       attempt_closed_at = CASE WHEN attempt_opened_at IS NOT NULL THEN :now::timestamptz END,
       reason = item.reason, next_attempt_at = NULL, updated_at = :now
  FROM window(id uuid, reason text) AS item
 WHERE o.id = item.id AND o.doubted_at IS NOT NULL;

-- name: lock_jobs_of_doubts
-- Locked before their items, as everywhere; and whether each of them has ended.
SELECT j.id::text, j.outcome IS NOT NULL FROM job_queue j
 WHERE j.run_id IS NOT NULL AND j.id = ANY (ARRAY(
   SELECT o.job_id FROM channel_outbox o
    WHERE o.id IN window(id uuid)))
 ORDER BY j.id FOR NO KEY UPDATE;

-- name: lost_holders
-- The workers that opened these doubted items and lost their lease, and when: for every abandoned
-- call, since the first of them may be the one that is alive.
-- postgres:
SELECT o.id::text, l.worker_id, l.lost_at
  FROM channel_outbox o
 CROSS JOIN LATERAL (
   SELECT o.attempt_fence AS fence
   UNION
   SELECT h.fence FROM attempt_history h WHERE h.outbox_id = o.id AND h.outcome = 'abandoned') called
  JOIN lost_leases l ON l.job_id = o.job_id AND l.fence = called.fence
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.doubted_at IS NOT NULL
   AND o.attempt_closed_at IS NULL
   AND o.id IN window(id uuid);
-- sqlite:
SELECT o.id, l.worker_id, l.lost_at
  FROM channel_outbox o JOIN lost_leases l ON l.job_id = o.job_id
   AND (l.fence = o.attempt_fence
        OR EXISTS (SELECT 1 FROM attempt_history h
                    WHERE h.outbox_id = o.id AND h.fence = l.fence AND h.outcome = 'abandoned'))
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.doubted_at IS NOT NULL
   AND o.attempt_closed_at IS NULL
   AND o.id IN window(id uuid);

-- name: doubts_page
-- By the index of doubts: the one by workspace would lead through its whole ledger.
SELECT o.id::text, o.run_id::text, o.job_id::text, o.recipient_id, o.recipient_address, o.channel,
       o.provider,
       coalesce(o.attempt_contract_id, o.contract_id),
       encode(o.idempotency_key, 'hex'), o.attempts, o.progress, o.reason, o.error,
       o.attempt_opened_at, o.doubted_at, o.created_at, r.campaign_id::text,
       o.intent_status = 'EXHAUSTED'
  FROM channel_outbox o {sqlite: INDEXED BY channel_outbox_doubted}
  LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.tenant_id::text = :tenant_id AND o.workspace_id::text = :workspace_id
   AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id::uuid IS NULL)
   AND (r.campaign_id = :campaign_id OR :campaign_id::uuid IS NULL)
   AND o.id::text {postgres: COLLATE "C"} > :after
 ORDER BY o.id LIMIT :most;

-- name: lock_doubts
SELECT o.id::text, o.run_id::text, o.job_id::text, o.channel, r.campaign_id::text,
       EXISTS (SELECT 1 FROM job_queue j WHERE j.id = o.job_id AND j.cancelled),
       o.intent_status = 'EXHAUSTED', o.attempt_opened_at IS NOT NULL, o.doubted_at
  FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.id IN window(id uuid)
   AND o.doubted_at IS NOT NULL
   FOR UPDATE OF o;

-- name: held_checks
SELECT outbox_id::text, doubted_at, fence FROM doubt_checks WHERE outbox_id IN window(id uuid);

-- name: resolve_sent
WITH item AS window(id uuid, status text, message_id text)
UPDATE channel_outbox AS o
   SET status = item.status,
       provider_message_id = coalesce(item.message_id, o.provider_message_id), intent_status = CASE WHEN o.intent_status = 'EXHAUSTED'
                                                THEN 'EXHAUSTED' ELSE 'ACCEPTED' END,
       attempt_closed_at = :now,
       attempt_opened_at = coalesce(o.attempt_opened_at, :now),
       attempt_fence = coalesce(o.attempt_fence, 0), progress = 'ANSWERED',
       reason = 'resolved_sent', error = NULL, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.doubted_at IS NOT NULL;

-- name: resolve_failed
-- An exhausted item has a reason: the rule by which its contract would have ended it.
UPDATE channel_outbox
   SET status = 'failed', intent_status = 'EXHAUSTED', doubted_at = NULL,
       exhausted_reason = coalesce(exhausted_reason, (
         SELECT CASE c.document ->> 'policy' WHEN 'deadline' THEN 'deadline_exceeded'
                ELSE c.document ->> 'policy' END
           FROM contract_snapshots c WHERE c.id = channel_outbox.contract_id)),
       attempt_closed_at = CASE WHEN attempt_opened_at IS NOT NULL THEN :now::timestamptz END,
       reason = 'resolved_failed', next_attempt_at = NULL, updated_at = :now
 WHERE id IN window(id uuid)
   AND doubted_at IS NOT NULL;

-- name: archive_doubted
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason, error)
SELECT id, attempts, repeats, attempt_fence, attempt_opened_at, :now,
       coalesce(progress, 'SENT_NO_ANSWER'), :outcome, reason, error
  FROM channel_outbox
 WHERE id IN window(id uuid)
   AND doubted_at IS NOT NULL AND attempt_opened_at IS NOT NULL;

-- name: resolve_resubmit
-- To be called again, as the same attempt: evidence says that it never arrived, or the gateway
-- recognises it if it did.
UPDATE channel_outbox
   SET repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       -- A repeat that only asks for the outcome is not bound by the acceptance deadline.
       expires_at = CASE WHEN :maybe_received AND attempt_opened_at IS NOT NULL THEN NULL
                         ELSE expires_at END,
       doubted_at = NULL, maybe_received = :maybe_received, attempt_opened_at = NULL,
       attempt_fence = NULL, progress = NULL, reason = :reason, error = NULL,
       next_attempt_at = :now, updated_at = :now
 WHERE id IN window(id uuid)
   AND doubted_at IS NOT NULL;

-- name: resolve_next_attempt
-- Evidence says that the call never arrived: its contract allows another attempt, at its own time.
WITH item AS window(id uuid, next_attempt_at timestamptz)
UPDATE channel_outbox AS o
   SET doubted_at = NULL, maybe_received = false, attempt_opened_at = NULL, attempt_fence = NULL,
       progress = NULL, repeats = 0, reason = 'never_arrived', error = NULL,
       next_attempt_at = item.next_attempt_at, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.doubted_at IS NOT NULL;

-- name: record_verdicts
-- A message that was found by its content is evidence for one doubt: whoever comes second gets
-- nothing.
INSERT INTO doubt_verdicts (id, outbox_id, doubted_at, run_id, verdict, kind, source,
                            provider_message_id, given_at)
SELECT item.id, item.outbox_id, item.doubted_at, item.run_id, :verdict, :kind, :source,
       item.message_id, :now
  FROM window(id uuid, outbox_id uuid, doubted_at timestamptz, run_id uuid, message_id text) AS item
 WHERE true
ON CONFLICT DO NOTHING
RETURNING outbox_id::text;

-- name: verdicts_of_run
-- By what the doubts of a run were settled, the last verdict of each item.
SELECT v.kind, v.verdict, v.source, count(*)
  FROM doubt_verdicts v
 WHERE v.run_id = :run_id
   AND NOT EXISTS (SELECT 1 FROM doubt_verdicts later
                    WHERE later.outbox_id = v.outbox_id AND later.id > v.id)
 GROUP BY v.kind, v.verdict, v.source ORDER BY v.kind, v.verdict, v.source;

-- name: wake_jobs
-- A verdict came: let a worker check these parked jobs now. "Call it again" grants a job that was
-- given up one more attempt.
WITH parked AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE id IN window(id uuid)
     AND (status = 'queued' OR run_id IS NULL)
     AND (run_at IS NULL OR run_at > :now OR :call_again)
   ORDER BY id FOR NO KEY UPDATE
)
UPDATE job_queue AS j SET run_at = :now, updated_at = :now,
       attempts = CASE WHEN :call_again AND run_id IS NOT NULL
                       THEN least(attempts, max_attempts - 1) ELSE attempts END
  FROM parked WHERE j.id = parked.id;

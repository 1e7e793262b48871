-- Closing attempts: how each call of a window ended, in one statement per kind of ending.

-- name: note_late_acceptances
-- Accepted calls whose item says otherwise: it was settled meanwhile, or a verdict said that this
-- attempt never arrived and another one was made; or the attempt had failed before its step was
-- restarted.
-- postgres:
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, message_id text)
INSERT INTO late_acceptances (outbox_id, attempt, fence, answered_at, provider_message_id,
                              recorded_at)
SELECT o.id, item.attempt, item.fence, item.closed_at, item.message_id, :now
  FROM item
  JOIN channel_outbox o ON looked_up(o.id, item.id)
  LEFT JOIN LATERAL (SELECT h.outcome FROM attempt_history h
                      WHERE h.outbox_id = item.id AND h.attempt = item.attempt
                        AND h.outcome = 'disproved' LIMIT 1) h ON true
 WHERE (o.status IN ('failed', 'skipped') OR item.attempt <= o.attempts_before
        OR ((o.attempts > item.attempt OR o.attempt_fence <> item.fence)
            AND h.outcome IS NOT NULL))
ON CONFLICT (outbox_id, attempt, fence) DO NOTHING
RETURNING outbox_id::text;
-- sqlite:
INSERT INTO late_acceptances (outbox_id, attempt, fence, answered_at, provider_message_id,
                              recorded_at)
SELECT o.id, item.attempt, item.fence, item.closed_at, item.message_id, :now
  FROM window(id uuid, attempt int, fence bigint, closed_at timestamptz, message_id text) AS item
  JOIN channel_outbox o ON o.id = item.id
 WHERE o.status IN ('failed', 'skipped') OR item.attempt <= o.attempts_before
    OR ((o.attempts > item.attempt OR o.attempt_fence <> item.fence)
        AND EXISTS (SELECT 1 FROM attempt_history h
                     WHERE h.outbox_id = item.id AND h.attempt = item.attempt
                       AND h.outcome = 'disproved'))
ON CONFLICT (outbox_id, attempt, fence) DO NOTHING
RETURNING outbox_id;

-- name: places_of_items
SELECT o.id::text, o.tenant_id::text, o.workspace_id::text, o.run_id::text, o.job_id::text,
       r.campaign_id::text, o.reason
  FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.id IN window(id uuid);

-- name: close_accepted
-- Only the attempt that was really made is closed: its number and fence must still match. An
-- acceptance of the last attempt counts even after a verdict said that it never arrived.
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, intent_status text,
                    exhausted_reason text, message_id text)
UPDATE channel_outbox AS o
   SET status = :status, intent_status = CASE WHEN o.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(o.exhausted_reason, item.exhausted_reason),
       progress = 'ANSWERED', reason = NULL,
       error = NULL, provider_message_id = item.message_id,
       attempt_closed_at = item.closed_at, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND ((o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL)
        OR (o.attempt_fence IS NULL AND o.attempt_opened_at IS NULL));

-- name: note_addressees
-- Whom a workspace has written to through a target that it shares: a reply to that target may name no
-- message. The rows are in one order for everybody.
INSERT INTO shared_addressees AS a (submission_target, address, tenant_id, workspace_id, written_at)
SELECT coalesce(c.submission_target, o.submission_target) AS target,
       lower(o.recipient_address) AS address, o.tenant_id, o.workspace_id, :now
  FROM channel_outbox o LEFT JOIN contract_snapshots c ON c.id = o.attempt_contract_id
 WHERE o.id IN window(id uuid) AND o.recipient_address IS NOT NULL
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 2, 4
ON CONFLICT (submission_target, address, workspace_id) DO UPDATE
   SET written_at = greatest(a.written_at, excluded.written_at);

-- name: close_proven
-- Accepted by proof: the gateway knows the reference from an earlier call, and its first answer is
-- kept.
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, intent_status text,
                    exhausted_reason text, reason text, error text)
UPDATE channel_outbox AS o
   SET status = :status, intent_status = CASE WHEN o.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(o.exhausted_reason, item.exhausted_reason),
       progress = 'ANSWERED', reason = item.reason, error = item.error,
       attempt_closed_at = item.closed_at, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL;

-- name: close_failed
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, intent_status text,
                    exhausted_reason text, progress text, reason text, error text)
UPDATE channel_outbox AS o
   SET status = 'failed', intent_status = CASE WHEN o.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(o.exhausted_reason, item.exhausted_reason),
       progress = item.progress,
       reason = item.reason, error = item.error, attempt_closed_at = item.closed_at,
       doubted_at = NULL, next_attempt_at = NULL, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL;

-- name: archive_retried
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, progress text,
                    outcome text, reason text, error text)
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason, error)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, item.closed_at, item.progress,
       item.outcome, item.reason, item.error
  FROM item
  JOIN channel_outbox o ON looked_up(o.id, item.id)
 WHERE o.status = 'queued' AND o.attempts = item.attempt AND o.attempt_fence = item.fence
   AND o.attempt_opened_at IS NOT NULL
   FOR UPDATE OF o;

-- name: close_retried
WITH item AS window(id uuid, attempt int, fence bigint, reason text, error text,
                    next_attempt_at timestamptz, maybe_received bool)
UPDATE channel_outbox AS o
   SET attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL, repeats = 0,
       reason = item.reason, error = item.error, next_attempt_at = item.next_attempt_at,
       maybe_received = item.maybe_received, doubted_at = NULL, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL;

-- name: close_doubted
WITH item AS window(id uuid, attempt int, fence bigint, closed_at timestamptz, progress text,
                    reason text, error text, intent_status text, exhausted_reason text)
UPDATE channel_outbox AS o
   SET doubted_at = item.closed_at,
       intent_status = CASE WHEN o.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(o.exhausted_reason, item.exhausted_reason),
       progress = item.progress, reason = item.reason, error = item.error, next_attempt_at = NULL,
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL;

-- name: give_back
-- A call that was not an attempt: never begun, or turned away. The item waits again, in its old
-- place unless the provider said when to come back.
WITH item AS window(id uuid, attempt int, fence bigint, next_attempt_at timestamptz, reason text,
                    error text, waits_for text, calls int)
UPDATE channel_outbox AS o
   SET attempts = o.attempts - CASE WHEN o.repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       uncounted_calls = o.uncounted_calls + item.calls,
       reason = coalesce(item.reason, o.reason), error = coalesce(item.error, o.error),
       waits_for = coalesce(item.waits_for, o.waits_for), doubted_at = NULL,
       next_attempt_at = coalesce(item.next_attempt_at, o.next_attempt_at, :now),
       updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempts = item.attempt
   AND o.attempt_fence = item.fence AND o.attempt_opened_at IS NOT NULL;

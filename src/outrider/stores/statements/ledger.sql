-- The ledger's transactions: read a job's items, reserve and open a window, reopen one, close
-- many.

-- name: load_remainder
-- With whether the provider has accepted it after all, in the run before or in one before that.
WITH RECURSIVE lineage (id, run_id, retry_job_id) AS (
  SELECT id, run_id, retry_job_id FROM job_queue WHERE id = :previous_job_id
  UNION
  SELECT j.id, j.run_id, j.retry_job_id
    FROM lineage
   {sqlite: JOIN job_queue j ON j.id = lineage.retry_job_id}
   {postgres: CROSS JOIN LATERAL (SELECT id, run_id, retry_job_id FROM job_queue
                                   WHERE id = lineage.retry_job_id LIMIT 1) j}
), late AS MATERIALIZED (
  SELECT DISTINCT e.recipient_id
    FROM lineage
   {sqlite: JOIN channel_outbox e ON} {postgres: CROSS JOIN LATERAL (
     SELECT recipient_id FROM channel_outbox e WHERE}
         e.run_id = lineage.run_id AND e.job_id = lineage.id
     AND EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = e.id)
   {postgres: OFFSET 0) e}
)
SELECT m.recipient_id,
       CASE :kind::int WHEN 1 THEN m.email WHEN 2 THEN m.phone WHEN 4 THEN m.push_token END,
       m.attributes, m.invalid, m.duplicate,
       o.recipient_id IN (SELECT recipient_id FROM late)
  FROM channel_outbox o {sqlite: CROSS} JOIN audience_members m
    ON m.campaign_id = :campaign_id AND m.recipient_id = o.recipient_id
 WHERE o.run_id = (SELECT j.run_id FROM job_queue j WHERE j.id = :previous_job_id)
   AND o.job_id = :previous_job_id
   AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
   AND CASE WHEN o.run_id = :previous_run_id
            THEN NOT EXISTS (SELECT 1 FROM retry_exclusions x
                              WHERE x.run_id = :run_id AND x.outbox_id = o.id)
            ELSE EXISTS (SELECT 1 FROM retry_exclusions x
                          WHERE x.taken_by = :run_id AND x.outbox_id = o.id) END
 ORDER BY m.position;

-- name: skip_held_keys
-- The provider is not called for these: they are on record as skipped, under a key of their own,
-- and name the key that they share and who holds it.
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, subject,
  idempotency_key, status, skipped, reason, error, created_at, updated_at)
SELECT item.id, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel, :provider,
       :submission_target, :contract_id, item.recipient_id, item.address, :asset_id,
       :asset_version, item.subject, decode(item.own_key, 'hex'), 'skipped', true, :reason,
       'the key ' || item.key || ' is held by item ' || holder.id, :now, :now
  FROM window(id uuid, recipient_id text, address text, subject text, key text,
              own_key text) AS item
  JOIN channel_outbox holder
    ON holder.tenant_id = :tenant_id AND holder.workspace_id = :workspace_id
   AND holder.idempotency_key = decode(item.key, 'hex')
 WHERE holder.job_id IS DISTINCT FROM :job_id OR holder.recipient_id <> item.recipient_id
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text;

-- name: note_late_acceptances
-- Of calls that were accepted, those whose item says otherwise: it was settled meanwhile, or a
-- verdict said that this attempt never arrived, and another one was made; or the attempt had
-- failed before its step began anew.
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

-- name: load_members
SELECT recipient_id,
       CASE :kind::int WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END,
       attributes, invalid, duplicate, false
  FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first_position AND :last_position
   AND (message_id IS NULL OR message_id = :message_id)
 ORDER BY position;

-- name: load_job_rows
SELECT id::text, recipient_id, status,
       attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL,
       next_attempt_at, doubted_at IS NOT NULL, attempts, attempt_contract_id, maybe_received,
       created_at, uncounted_calls, repeats, contract_id
  FROM channel_outbox WHERE run_id = :run_id AND job_id = :job_id;

-- name: reserve_window
-- Reserve and open in one: a row that exists already is left alone and not returned. That the job
-- is ours, and goes on where attempts are opened, is proved and kept until the commit.
WITH held AS MATERIALIZED (
  SELECT id FROM job_queue WHERE id = :job_id AND fence = :fence AND status = 'locked'
     AND (NOT :opens::boolean OR NOT (paused OR cancelled)) FOR NO KEY UPDATE
), item AS window(id uuid, recipient_id text, address text, subject text, key text, status text,
                  reason text, error text
), screened AS (
  SELECT item.id, item.recipient_id, item.address, item.subject, item.key, item.error,
         CASE WHEN item.status IS NOT NULL THEN item.status
              WHEN s.address IS NOT NULL {sqlite: OR t.address IS NOT NULL} THEN 'skipped'
              ELSE 'queued' END AS status,
         CASE WHEN item.status IS NULL AND (s.address IS NOT NULL {sqlite: OR t.address IS NOT NULL})
              THEN 'suppressed'
              ELSE item.reason END AS reason
    FROM item
    {postgres: LEFT JOIN LATERAL (
      SELECT s.address FROM suppressions s
       WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
         AND s.channel = :channel AND s.address = lower(item.address)
         AND (s.topic = '' OR s.topic = :topic::text)
         AND (s.includes_transactional OR NOT :transactional::boolean)
       LIMIT 1) s ON true}
    {sqlite: LEFT JOIN suppressions s
      ON s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id AND s.channel = :channel
     AND s.address = lower(item.address) AND s.topic = ''
     AND (s.includes_transactional OR NOT :transactional)
    LEFT JOIN suppressions t
      ON t.tenant_id = :tenant_id AND t.workspace_id = :workspace_id AND t.channel = :channel
     AND t.address = lower(item.address) AND t.topic = :topic
     AND (t.includes_transactional OR NOT :transactional)}
)
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, subject,
  idempotency_key, status, skipped, intent_status, reason, error, attempts, attempt_fence,
  attempt_opened_at, expires_at, topic, transactional, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel, :provider,
       :submission_target, :contract_id, recipient_id, address, :asset_id, :asset_version,
       subject, decode(key, 'hex'), status, status = 'skipped',
       CASE status WHEN 'queued' THEN 'PENDING' END, reason, error,
       (status = 'queued')::int, CASE status WHEN 'queued' THEN :fence::bigint END,
       CASE status WHEN 'queued' THEN :now::timestamptz END, :expires_at, :topic::text,
       :transactional::boolean, :now, :now
  FROM screened WHERE EXISTS (SELECT 1 FROM held)
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text, status;

-- name: reserve_fresh
-- Of a job that nobody held before, so none of its rows can exist, and looking for each of them
-- first would cost a fifth of the whole. If one does exist, the database refuses all of them.
-- as reserve_window without ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING

-- name: doubt_abandoned
-- Attempts that a former holder of the job left open, at a gateway that forgets.
UPDATE channel_outbox SET doubted_at = :now, reason = 'worker_lost', next_attempt_at = NULL,
       updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND doubted_at IS NULL
   AND attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL AND attempt_fence < :fence
RETURNING id::text;

-- name: archive_abandoned
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, :now,
       'SENT_NO_ANSWER', 'abandoned', 'worker_lost'
  FROM channel_outbox o
 WHERE o.id IN window(id uuid)
   AND o.status = 'queued' AND o.attempt_opened_at IS NOT NULL
   AND o.attempt_closed_at IS NULL AND o.attempt_fence < :fence AND o.doubted_at IS NULL
   FOR UPDATE
ON CONFLICT (outbox_id, attempt, repeat) DO NOTHING;

-- name: skip_suppressed
-- Opted out before this attempt; only where no earlier one may have arrived.
UPDATE channel_outbox SET status = 'skipped', skipped = true,
       intent_status = CASE origin WHEN 'intent' THEN 'REJECTED' END,
       reason = 'suppressed', next_attempt_at = NULL, waits_for = NULL, updated_at = :now
 WHERE id IN window(id uuid)
   AND status = 'queued' AND attempt_opened_at IS NULL AND NOT maybe_received
   AND EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = channel_outbox.tenant_id
                  AND s.workspace_id = channel_outbox.workspace_id
                  AND s.channel = channel_outbox.channel
                  AND s.address = lower(channel_outbox.recipient_address)
                  AND (s.topic = '' OR s.topic = channel_outbox.topic)
                  AND (s.includes_transactional OR NOT channel_outbox.transactional));

-- name: doubt_suppressed
-- Opted out, and an earlier attempt may have arrived: to ask again might be to send it, so
-- somebody has to find out in another way. What a former holder left open is in the history
-- already.
UPDATE channel_outbox SET doubted_at = :now, reason = 'suppressed', next_attempt_at = NULL,
       waits_for = NULL, repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       attempt_opened_at = NULL, attempt_fence = NULL, progress = NULL,
       maybe_received = true, updated_at = :now
 WHERE id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL AND attempt_closed_at IS NULL
   AND ((attempt_opened_at IS NULL AND maybe_received)
        OR (attempt_opened_at IS NOT NULL AND attempt_fence < :fence))
   AND EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = channel_outbox.tenant_id
                  AND s.workspace_id = channel_outbox.workspace_id
                  AND s.channel = channel_outbox.channel
                  AND s.address = lower(channel_outbox.recipient_address)
                  AND (s.topic = '' OR s.topic = channel_outbox.topic)
                  AND (s.includes_transactional OR NOT channel_outbox.transactional))
RETURNING id::text;

-- name: reopen_window
-- What was left open is called again as the same attempt. Whoever opted out meanwhile is left as
-- it is, whatever became of earlier attempts.
UPDATE channel_outbox
   SET attempts = attempts + CASE WHEN attempt_opened_at IS NULL AND repeats = 0 THEN 1 ELSE 0 END,
       repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       repeat_target = CASE WHEN maybe_received OR attempt_opened_at IS NOT NULL
                            THEN :target::text ELSE repeat_target END,
       repeat_memory = CASE WHEN maybe_received OR attempt_opened_at IS NOT NULL
                            THEN :memory::text ELSE repeat_memory END,
       attempt_contract_id = :attempt_contract_id, attempt_fence = :fence, attempt_opened_at = :now,
       maybe_received = maybe_received OR attempt_opened_at IS NOT NULL, waits_for = NULL,
       next_attempt_at = CASE WHEN run_id IS NULL THEN next_attempt_at END, updated_at = :now
 WHERE id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL
   AND (attempt_opened_at IS NULL OR attempt_fence < :fence)
   AND NOT EXISTS (SELECT 1 FROM suppressions s
                   WHERE s.tenant_id = channel_outbox.tenant_id
                     AND s.workspace_id = channel_outbox.workspace_id
                     AND s.channel = channel_outbox.channel
                     AND s.address = lower(channel_outbox.recipient_address)
                     AND (s.topic = '' OR s.topic = channel_outbox.topic)
                     AND (s.includes_transactional OR NOT channel_outbox.transactional))
RETURNING id::text, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

-- name: open_due
-- As reopen_window, for what nobody has open, while the job's own lease lasts: that the job is
-- ours and goes on is proved, and kept until the commit, by the same statement.
WITH held AS MATERIALIZED (
  SELECT id FROM job_queue WHERE id = :job_id AND fence = :fence AND status = 'locked'
     AND paused = false AND NOT cancelled FOR NO KEY UPDATE
)
UPDATE channel_outbox
   SET attempts = attempts + CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       repeat_target = CASE WHEN maybe_received THEN :target::text ELSE repeat_target END,
       repeat_memory = CASE WHEN maybe_received THEN :memory::text ELSE repeat_memory END,
       attempt_contract_id = :attempt_contract_id, attempt_fence = :fence, attempt_opened_at = :now,
       waits_for = NULL,
       next_attempt_at = CASE WHEN run_id IS NULL THEN next_attempt_at END, updated_at = :now
 WHERE EXISTS (SELECT 1 FROM held)
   AND id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM suppressions s
                   WHERE s.tenant_id = channel_outbox.tenant_id
                     AND s.workspace_id = channel_outbox.workspace_id
                     AND s.channel = channel_outbox.channel
                     AND s.address = lower(channel_outbox.recipient_address)
                     AND (s.topic = '' OR s.topic = channel_outbox.topic)
                     AND (s.includes_transactional OR NOT channel_outbox.transactional))
RETURNING id::text, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

-- name: close_accepted
-- Only the attempt that was really made is closed: its number and fence must still stand. An
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

-- name: close_proven
-- Accepted by proof: the gateway knows the reference from an earlier call, and what it said stays.
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
-- A call that was no attempt: never begun, or turned away. It waits again, in its old place unless
-- it was told when to come back.
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

-- name: expire_items
-- What waits and could only be accepted too late has ended, and says what it waited for. What may
-- have arrived is exhausted too, so nobody calls it again: it is in doubt.
WITH late AS MATERIALIZED (
  SELECT id FROM channel_outbox
   WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
     AND status = 'queued' AND attempt_opened_at IS NULL AND doubted_at IS NULL
   {sqlite: ORDER BY expires_at} LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE channel_outbox AS o
   SET status = CASE WHEN o.maybe_received THEN 'queued' ELSE 'failed' END,
       intent_status = 'EXHAUSTED', exhausted_reason = 'deadline_exceeded',
       reason = coalesce(
         (SELECT 'target_' || d.state FROM target_doors d
           WHERE d.submission_target = o.submission_target AND d.state <> 'open'
             AND d.workspace_id IN ('', o.workspace_id::text) LIMIT 1),
         o.waits_for, o.reason, 'deadline_passed'),
       doubted_at = CASE WHEN o.maybe_received THEN :now::timestamptz END,
       next_attempt_at = NULL, waits_for = NULL, updated_at = :now
  FROM late WHERE looked_up(o.id, late.id)
RETURNING CASE WHEN run_id IS NOT NULL THEN job_id::text END, o.id::text, o.origin, o.attempts,
          o.reason;

-- name: any_expired
SELECT 1 FROM channel_outbox
 WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
   AND status = 'queued' AND attempt_opened_at IS NULL AND doubted_at IS NULL
 LIMIT 1;

-- name: bury_waiting
-- Items of a job that is given up or stopped: failed, or skipped where nobody had attempted them;
-- unless an earlier attempt may have arrived.
UPDATE channel_outbox
   SET status = CASE WHEN maybe_received THEN 'queued'
                     WHEN attempts = 0 THEN 'skipped' ELSE 'failed' END,
       skipped = NOT maybe_received AND attempts = 0,
       doubted_at = CASE WHEN maybe_received THEN :now::timestamptz END,
       intent_status = CASE WHEN maybe_received THEN 'PENDING' END,
       reason = :reason, next_attempt_at = NULL, updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND doubted_at IS NULL
   AND attempt_opened_at IS NULL;

-- name: doubt_items
-- Items that must not be called again: a former holder of the job left them open, as often as it
-- may be or at a gateway that does not remember; or an earlier silence is older than its memory.
UPDATE channel_outbox
   SET doubted_at = :now, next_attempt_at = NULL, updated_at = :now,
       reason = CASE WHEN attempt_opened_at IS NOT NULL AND repeats >= :repeats_max
                     THEN 'worker_lost_repeatedly' ELSE 'worker_lost' END
 WHERE id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL AND attempt_closed_at IS NULL
   AND ((attempt_opened_at IS NOT NULL AND attempt_fence < :fence)
        OR (attempt_opened_at IS NULL AND maybe_received));

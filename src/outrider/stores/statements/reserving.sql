-- Reserving and opening: a window of drafts becomes open attempts, or opens again. An answer to a
-- receipt goes out although its recipient has just opted out: it confirms that, or was asked for.

-- name: skip_held_keys
-- The provider is not called for these: they are recorded as skipped, under a separate key, and
-- name the key that they share and its holder.
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

-- name: reserve_window
-- Reserve and open in one: an existing row is left alone and not returned. The same statement
-- proves, and locks until the commit, that the job is ours and, where attempts are opened, not
-- suspended.
WITH held AS MATERIALIZED (
  SELECT id FROM job_queue WHERE id = :job_id AND fence = :fence AND status = 'locked'
     AND (NOT :opens::boolean OR NOT (paused OR cancelled)) FOR NO KEY UPDATE
), item AS window(id uuid, recipient_id text, address text, subject text, key text, status text,
                  reason text, error text
), screened AS (
  SELECT item.id, item.recipient_id, item.address, item.subject, item.key, item.error,
         item.status AS given, item.reason,
         CASE WHEN item.status IS NOT NULL THEN item.status
              WHEN s.address IS NOT NULL {sqlite: OR t.address IS NOT NULL} THEN 'skipped'
              WHEN EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                        ON e.workspace_id = z.workspace_id AND e.channel = :channel
                       AND e.hash = outrider_address_hash(z.salt, item.address)
                       AND (e.topic = '' OR e.topic = :topic::text)
                       AND (e.includes_transactional OR NOT :transactional::boolean)
                     WHERE z.workspace_id = :workspace_id) THEN 'skipped'
              ELSE 'queued' END AS status
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
  attempt_opened_at, attempt_contract_id, expires_at, topic, transactional, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel, :provider,
       :submission_target, :contract_id, recipient_id, address, :asset_id, :asset_version,
       subject, decode(key, 'hex'), status, status = 'skipped',
       CASE status WHEN 'queued' THEN 'PENDING' END,
       CASE WHEN given IS NULL AND status = 'skipped' THEN 'suppressed' ELSE reason END, error,
       (status = 'queued')::int, CASE status WHEN 'queued' THEN :fence::bigint END,
       CASE status WHEN 'queued' THEN :now::timestamptz END, :attempt_contract_id::bigint,
       :expires_at, :topic::text,
       :transactional::boolean, :now, :now
  FROM screened WHERE EXISTS (SELECT 1 FROM held)
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text, status;

-- name: reserve_fresh
-- Skips the duplicate check for a job's first holder: none of its rows can exist, and looking for
-- each would cost a fifth of the whole. If one does exist, the database refuses all of them.
-- as reserve_window without ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING

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
   AND (EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = channel_outbox.tenant_id
                  AND s.workspace_id = channel_outbox.workspace_id
                  AND s.channel = channel_outbox.channel
                  AND s.address = lower(channel_outbox.recipient_address)
                  AND (s.topic = '' OR s.topic = channel_outbox.topic)
                  AND (s.includes_transactional OR NOT channel_outbox.transactional)
                  AND (channel_outbox.answers_receipt IS NULL
                       OR s.source NOT IN ('stop', 'unsubscribe')))
        OR EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                      ON e.workspace_id = z.workspace_id AND e.channel = channel_outbox.channel
                     AND e.hash = outrider_address_hash(z.salt, channel_outbox.recipient_address)
                     AND (e.topic = '' OR e.topic = channel_outbox.topic)
                     AND (e.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR e.source NOT IN ('stop', 'unsubscribe'))
                   WHERE z.workspace_id = channel_outbox.workspace_id));

-- name: doubt_suppressed
-- Opted out, and an earlier attempt may have arrived: asking again might send it, so it has to be
-- settled in another way. What a former holder left open is already in the history.
UPDATE channel_outbox SET doubted_at = :now, reason = 'suppressed', next_attempt_at = NULL,
       waits_for = NULL, repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       attempt_opened_at = NULL, attempt_fence = NULL, progress = NULL,
       maybe_received = true, updated_at = :now
 WHERE id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL AND attempt_closed_at IS NULL
   AND ((attempt_opened_at IS NULL AND maybe_received)
        OR (attempt_opened_at IS NOT NULL AND attempt_fence < :fence))
   AND (EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = channel_outbox.tenant_id
                  AND s.workspace_id = channel_outbox.workspace_id
                  AND s.channel = channel_outbox.channel
                  AND s.address = lower(channel_outbox.recipient_address)
                  AND (s.topic = '' OR s.topic = channel_outbox.topic)
                  AND (s.includes_transactional OR NOT channel_outbox.transactional)
                  AND (channel_outbox.answers_receipt IS NULL
                       OR s.source NOT IN ('stop', 'unsubscribe')))
        OR EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                      ON e.workspace_id = z.workspace_id AND e.channel = channel_outbox.channel
                     AND e.hash = outrider_address_hash(z.salt, channel_outbox.recipient_address)
                     AND (e.topic = '' OR e.topic = channel_outbox.topic)
                     AND (e.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR e.source NOT IN ('stop', 'unsubscribe'))
                   WHERE z.workspace_id = channel_outbox.workspace_id))
RETURNING id::text;

-- name: reopen_window
-- An attempt left open is called again as the same attempt. A recipient who has opted out since is
-- left unchanged, whatever happened to earlier attempts.
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
                     AND (s.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR s.source NOT IN ('stop', 'unsubscribe')))
   AND NOT EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                      ON e.workspace_id = z.workspace_id AND e.channel = channel_outbox.channel
                     AND e.hash = outrider_address_hash(z.salt, channel_outbox.recipient_address)
                     AND (e.topic = '' OR e.topic = channel_outbox.topic)
                     AND (e.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR e.source NOT IN ('stop', 'unsubscribe'))
                   WHERE z.workspace_id = channel_outbox.workspace_id)
RETURNING id::text, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

-- name: open_due
-- As reopen_window, for items without an open attempt, during the job's own lease: the same
-- statement proves, and locks until the commit, that the job is ours and not suspended.
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
                     AND (s.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR s.source NOT IN ('stop', 'unsubscribe')))
   AND NOT EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                      ON e.workspace_id = z.workspace_id AND e.channel = channel_outbox.channel
                     AND e.hash = outrider_address_hash(z.salt, channel_outbox.recipient_address)
                     AND (e.topic = '' OR e.topic = channel_outbox.topic)
                     AND (e.includes_transactional OR NOT channel_outbox.transactional)
                     AND (channel_outbox.answers_receipt IS NULL
                          OR e.source NOT IN ('stop', 'unsubscribe'))
                   WHERE z.workspace_id = channel_outbox.workspace_id)
RETURNING id::text, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

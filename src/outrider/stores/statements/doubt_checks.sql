-- Looking into doubts: which are due, what is known of them, and when to look again.

-- name: is_doubt_due
SELECT 1 FROM doubt_checks WHERE next_check_at <= :now LIMIT 1;

-- name: claim_doubts
-- Those that have waited longest, hidden from other resolvers until the lease ends: one that dies
-- loses nothing, and a higher fence shuts it out.
WITH due AS MATERIALIZED (
  SELECT outbox_id FROM doubt_checks WHERE next_check_at <= :now
     AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = 1)
   ORDER BY next_check_at, outbox_id LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE doubt_checks AS c SET fence = fence + 1, next_check_at = :lease_expires_at
  FROM due WHERE c.outbox_id = due.outbox_id
RETURNING c.outbox_id::text;

-- name: claimed_doubts
SELECT o.id::text, o.tenant_id::text, o.workspace_id::text, o.run_id::text, o.job_id::text,
       r.campaign_id::text, o.origin, o.channel, o.recipient_id, o.recipient_address, o.asset_id::text,
       o.payload, o.topic, o.transactional, coalesce(o.attempt_contract_id, o.contract_id),
       o.contract_id, encode(o.idempotency_key, 'hex'), o.attempts, coalesce(o.attempts_before, 0),
       o.repeats, o.uncounted_calls, o.progress, o.reason, o.attempt_opened_at, o.doubted_at,
       coalesce(o.due_at, o.created_at) AS submitted_at, o.created_at, o.intent_status = 'EXHAUSTED',
       coalesce(j.cancelled, false), j.run_id IS NOT NULL AND j.outcome IS NOT NULL,
       c.fence, c.checks, c.checked_at, c.settles, c.since AS since_at
  FROM channel_outbox o
  JOIN doubt_checks c ON c.outbox_id = o.id
  LEFT JOIN campaign_runs r ON r.id = o.run_id
  LEFT JOIN job_queue j ON j.id = o.job_id
 WHERE o.id IN window(id uuid) AND o.doubted_at IS NOT NULL
 ORDER BY o.id;

-- name: keep_doubts
-- The lease of what is being looked into; not of what was put back, or has another holder.
WITH item AS window(id uuid, fence bigint)
UPDATE doubt_checks AS c SET next_check_at = :lease_expires_at
  FROM item
 WHERE looked_up(c.outbox_id, item.id) AND c.fence = item.fence;

-- name: put_back_doubts
-- What a look found out, and when the next one is due; without a time, it is a person's.
WITH item AS window(id uuid, doubted_at timestamptz, fence bigint, settles text, since timestamptz,
                    next_check_at timestamptz, checks int, checked_at timestamptz, finding text,
                    detail text)
UPDATE doubt_checks AS c
   SET settles = item.settles, since = item.since, next_check_at = item.next_check_at,
       checks = item.checks, checked_at = item.checked_at,
       finding = coalesce(item.finding, c.finding), detail = coalesce(item.detail, c.detail)
  FROM item
 WHERE looked_up(c.outbox_id, item.id) AND c.fence = item.fence AND c.doubted_at = item.doubted_at;

-- name: look_now
-- Somebody wants to know now, or a receipt is no longer the only hope.
UPDATE doubt_checks SET next_check_at = :now
 WHERE outbox_id IN window(id uuid);

-- name: members_of_doubts
SELECT o.id::text, m.attributes
  FROM channel_outbox o
  JOIN campaign_runs r ON r.id = o.run_id
  JOIN audience_members m ON m.campaign_id = r.campaign_id AND m.recipient_id = o.recipient_id
 WHERE o.id IN window(id uuid);

-- name: known_messages
-- Of the messages found at a provider, those that the ledger knows to be another item's. Two
-- providers may give the same id to two messages.
SELECT item.id FROM window(id text) AS item
 WHERE (SELECT count(*) FROM provider_messages m
          JOIN channel_outbox o ON o.id = m.outbox_id
          JOIN contract_snapshots c ON c.id = coalesce(o.attempt_contract_id, o.contract_id)
         WHERE m.provider_message_id = item.id
           AND (c.submission_target = :submission_target
                OR c.document ->> 'gatewayUrl' = :gateway_url)) > 0;

-- name: rivals
-- Other items to the same recipients: those in doubt, those whose call may be under way, and those
-- settled as sent without saying as which message. Jobs that nobody holds have open attempts only if
-- they lost a worker. Posts have no address: they are found by their target's lanes.
WITH item AS window(address text)
SELECT o.id::text, coalesce(lower(o.recipient_address), '') AS address, 'doubted' AS state
  FROM channel_outbox o {sqlite: INDEXED BY channel_outbox_doubted}
 WHERE o.doubted_at IS NOT NULL AND o.channel = :channel
   AND coalesce(lower(o.recipient_address), '') = ANY (ARRAY(SELECT address FROM item))
UNION ALL
SELECT o.id::text, lower(o.recipient_address), 'called'
  FROM channel_outbox o
 WHERE o.origin = 'intent' AND o.channel = :channel
   AND lower(o.recipient_address) = ANY (ARRAY(SELECT address FROM item))
   AND o.workspace_id = ANY (ARRAY(
         SELECT w.id FROM workspaces w WHERE w.id = :workspace_id OR :is_shared))
   AND o.status = 'queued' AND o.doubted_at IS NULL
   AND (o.attempt_opened_at IS NOT NULL OR o.maybe_received)
UNION ALL
SELECT o.id::text, lower(o.recipient_address), 'called'
  FROM channel_outbox o
 WHERE o.origin = 'workflow' AND o.channel = :channel
   AND lower(o.recipient_address) = ANY (ARRAY(SELECT address FROM item))
   AND o.tenant_id = ANY (ARRAY(
         SELECT w.tenant_id FROM workspaces w WHERE w.id = :workspace_id OR :is_shared))
   AND o.workspace_id = ANY (ARRAY(
         SELECT w.id FROM workspaces w WHERE w.id = :workspace_id OR :is_shared))
   AND o.status = 'queued' AND o.doubted_at IS NULL
   AND (o.attempt_opened_at IS NOT NULL OR o.maybe_received)
UNION ALL
SELECT o.id::text, coalesce(lower(o.recipient_address), ''), 'called'
  FROM channel_outbox o
 WHERE o.run_id = ANY (ARRAY(
         SELECT j.run_id FROM job_queue j
          WHERE (j.outcome IS NULL OR j.unended > 0) AND (j.status = 'locked' OR j.losses > 0)))
   AND o.job_id = ANY (ARRAY(
         SELECT j.id FROM job_queue j
          WHERE (j.outcome IS NULL OR j.unended > 0) AND (j.status = 'locked' OR j.losses > 0)))
   AND o.channel = :channel
   AND coalesce(lower(o.recipient_address), '') = ANY (ARRAY(SELECT address FROM item))
   AND o.status = 'queued' AND o.doubted_at IS NULL
   AND (o.attempt_opened_at IS NOT NULL OR o.maybe_received)
UNION ALL
SELECT o.id::text, '', 'called'
  FROM channel_outbox o
 WHERE o.job_id = ANY (ARRAY(
         SELECT j.id FROM job_queue j
          WHERE :is_unaddressed AND j.run_id IS NULL AND j.submission_target = :submission_target))
   AND o.run_id IS NULL AND o.next_attempt_at IS NOT NULL AND o.recipient_address IS NULL
   AND o.status = 'queued' AND o.doubted_at IS NULL
   AND (o.attempt_opened_at IS NOT NULL OR o.maybe_received)
UNION ALL
SELECT o.id::text, coalesce(lower(o.recipient_address), ''), 'settled'
  FROM doubt_verdicts v {sqlite: CROSS} JOIN channel_outbox o ON o.id = v.outbox_id
 WHERE v.verdict = 'sent' AND v.provider_message_id IS NULL AND v.doubted_at >= :since
   AND o.provider_message_id IS NULL AND o.channel = :channel
   AND coalesce(lower(o.recipient_address), '') = ANY (ARRAY(SELECT address FROM item));

-- name: note_recipe
INSERT INTO request_recipes (submission_target, gateway_url, workspace, recipe, first_used_at,
                             last_used_at)
SELECT submission_target, gateway_url, workspace, recipe, :now, :now
  FROM window(submission_target text, gateway_url text, workspace text, recipe text) AS item
 WHERE true
ON CONFLICT (submission_target, gateway_url, workspace, recipe)
DO UPDATE SET last_used_at = :now;

-- name: recipes_in_use
SELECT submission_target, gateway_url, workspace, recipe, first_used_at, last_used_at
  FROM request_recipes;

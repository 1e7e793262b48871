-- Lists of items in doubt, and how many there are of which kind.

-- name: doubts_listed
-- By the index of doubts: the one by workspace would lead through its whole ledger.
SELECT o.id::text, o.run_id::text, r.campaign_id::text, o.recipient_id, o.recipient_address, o.channel,
       o.provider, c.submission_target, encode(o.idempotency_key, 'hex'), o.attempts, o.repeats,
       o.progress, o.reason, o.error, o.attempt_opened_at, o.doubted_at, o.created_at,
       o.provider_message_id, o.intent_status = 'EXHAUSTED', k.settles, k.since AS since_at,
       k.next_check_at, k.detail
  FROM channel_outbox o {sqlite: INDEXED BY channel_outbox_doubted}
  JOIN contract_snapshots c ON c.id = coalesce(o.attempt_contract_id, o.contract_id)
  LEFT JOIN doubt_checks k ON k.outbox_id = o.id
  LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.tenant_id::text = :tenant_id AND o.workspace_id::text = :workspace_id
   AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id::uuid IS NULL)
   AND (r.campaign_id = :campaign_id OR :campaign_id::uuid IS NULL)
   AND (c.submission_target = :submission_target OR :submission_target::text IS NULL)
   AND (o.reason = :reason OR :reason::text IS NULL)
   AND (k.settles = :settles OR :settles::text IS NULL)
   AND o.id::text {postgres: COLLATE "C"} > :after
 ORDER BY o.id LIMIT :most;

-- name: doubts_counted
-- Of so many at the most, by what they wait for, target, reason and campaign.
SELECT counted.settles, counted.submission_target, counted.reason, counted.campaign_id::text,
       count(*)::int, min(counted.since_at) AS since_at
  FROM (
    SELECT k.settles, c.submission_target, o.reason, r.campaign_id, k.since AS since_at
      FROM channel_outbox o {sqlite: INDEXED BY channel_outbox_doubted}
      JOIN contract_snapshots c ON c.id = coalesce(o.attempt_contract_id, o.contract_id)
      LEFT JOIN doubt_checks k ON k.outbox_id = o.id
      LEFT JOIN campaign_runs r ON r.id = o.run_id
     WHERE o.tenant_id::text = :tenant_id AND o.workspace_id::text = :workspace_id
       AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id::uuid IS NULL)
       AND (r.campaign_id = :campaign_id OR :campaign_id::uuid IS NULL)
       AND (c.submission_target = :submission_target OR :submission_target::text IS NULL)
       AND (o.reason = :reason OR :reason::text IS NULL)
       AND (k.settles = :settles OR :settles::text IS NULL)
     LIMIT :most) counted
 GROUP BY counted.settles, counted.submission_target, counted.reason, counted.campaign_id;

-- name: campaign_names
SELECT c.id::text, c.name FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id
   AND c.id IN window(id uuid);

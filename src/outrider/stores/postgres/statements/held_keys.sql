-- Items whose key another item holds, and doubts of jobs that have ended, in Postgres' dialect.

-- name: skip_held_keys
-- The provider is not called for these: they are on record as skipped, under a key of their own, and
-- name the key that they share and who holds it.
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, subject,
  idempotency_key, status, skipped, reason, error, created_at, updated_at)
SELECT item.id, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel, :provider,
       :submission_target, :contract_id, item.recipient_id, item.address, :asset_id,
       :asset_version, item.subject, decode(item.own_key, 'hex'), 'skipped', true, :reason,
       'the key ' || item.key || ' is held by item ' || holder.id, :now, :now
  FROM json_to_recordset(:window)
    AS item (id uuid, recipient_id text, address text, subject text, key text, own_key text)
  JOIN channel_outbox holder
    ON holder.tenant_id = :tenant_id AND holder.workspace_id = :workspace_id
   AND holder.idempotency_key = decode(item.key, 'hex')
 WHERE holder.job_id IS DISTINCT FROM :job_id OR holder.recipient_id <> item.recipient_id
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text;

-- name: end_unsent
-- Evidence says that these never arrived, and the job that would have called them again has ended:
-- they are part of what its run left over.
UPDATE channel_outbox AS o
   SET status = 'failed', intent_status = NULL, exhausted_reason = NULL, doubted_at = NULL,
       attempt_closed_at = CASE WHEN attempt_opened_at IS NOT NULL THEN :now::timestamptz END,
       reason = item.reason, next_attempt_at = NULL, updated_at = :now
  FROM json_to_recordset(:window) AS item (id uuid, reason text)
 WHERE o.id = item.id AND o.doubted_at IS NOT NULL;

-- name: lock_jobs_of_doubts
-- Before their items, as everybody does; and whether each of them has ended.
SELECT j.id::text, j.outcome IS NOT NULL FROM job_queue j
 WHERE j.run_id IS NOT NULL AND j.id = ANY (ARRAY(
   SELECT o.job_id FROM channel_outbox o
    WHERE o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))))
 ORDER BY j.id FOR NO KEY UPDATE;

-- name: bury_left_waiting
-- A worker that was taken for dead gave items back, or has tries left for them, after their job was
-- stopped, or given up, and had ended. As `bury_waiting` does it.
UPDATE channel_outbox AS o
   SET status = CASE WHEN o.maybe_received THEN 'queued' WHEN o.attempts = 0 THEN 'skipped'
                     ELSE 'failed' END,
       skipped = NOT o.maybe_received AND o.attempts = 0,
       doubted_at = CASE WHEN o.maybe_received THEN :now::timestamptz END,
       intent_status = CASE WHEN o.maybe_received THEN 'PENDING' END,
       reason = :reason, next_attempt_at = NULL, updated_at = :now
  FROM job_queue j
 WHERE (j.outcome IS NULL OR j.unended > 0) AND j.outcome IS NOT NULL
   AND j.cancelled = :cancelled::boolean AND (j.cancelled OR j.status = 'dead')
   AND j.updated_at >= :since AND o.run_id = j.run_id AND o.job_id = j.id
   AND o.status = 'queued' AND o.doubted_at IS NULL AND o.attempt_opened_at IS NULL
RETURNING o.id::text;

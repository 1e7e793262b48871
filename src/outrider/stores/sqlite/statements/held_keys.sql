-- Items whose key another item holds, and doubts of jobs that have ended, in SQLite's dialect.

-- name: skip_held_keys
-- The provider is not called for these: they are on record as skipped, under a key of their own, and
-- name the key that they share and who holds it.
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, subject,
  idempotency_key, status, skipped, reason, error, created_at, updated_at)
SELECT item.value ->> 0, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel,
       :provider, :submission_target, :contract_id, item.value ->> 1, item.value ->> 2, :asset_id,
       :asset_version, item.value ->> 3, unhex(item.value ->> 5), 'skipped', 1, :reason,
       'the key ' || (item.value ->> 4) || ' is held by item ' || holder.id, :now, :now
  FROM json_each(:window) item
  JOIN channel_outbox holder
    ON holder.tenant_id = :tenant_id AND holder.workspace_id = :workspace_id
   AND holder.idempotency_key = unhex(item.value ->> 4)
 WHERE holder.job_id IS NOT :job_id OR holder.recipient_id <> item.value ->> 1
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id;

-- name: end_unsent
-- Evidence says that these never arrived, and the job that would have called them again has ended:
-- they are part of what its run left over.
UPDATE channel_outbox
   SET status = 'failed', intent_status = NULL, exhausted_reason = NULL, doubted_at = NULL,
       attempt_closed_at = CASE WHEN attempt_opened_at IS NOT NULL THEN :now END,
       reason = item.reason, next_attempt_at = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS reason FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND doubted_at IS NOT NULL;

-- name: lock_jobs_of_doubts
-- Before their items, as everybody does; and whether each of them has ended.
SELECT j.id, j.outcome IS NOT NULL FROM job_queue j
 WHERE j.run_id IS NOT NULL AND j.id IN (
   SELECT o.job_id FROM channel_outbox o WHERE o.id IN (SELECT value ->> 0 FROM json_each(:window)));

-- name: bury_left_waiting
-- A worker that was taken for dead gave items back, or has tries left for them, after their job was
-- stopped, or given up, and had ended. As `bury_waiting` does it.
UPDATE channel_outbox
   SET status = CASE WHEN maybe_received THEN 'queued' WHEN attempts = 0 THEN 'skipped'
                     ELSE 'failed' END,
       skipped = NOT maybe_received AND attempts = 0,
       doubted_at = CASE WHEN maybe_received THEN :now END,
       intent_status = CASE WHEN maybe_received THEN 'PENDING' END,
       reason = :reason, next_attempt_at = NULL, updated_at = :now
 WHERE id IN (
   SELECT o.id FROM job_queue j CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
    WHERE (j.outcome IS NULL OR j.unended > 0) AND j.outcome IS NOT NULL
      AND j.cancelled = :cancelled AND (j.cancelled OR j.status = 'dead')
      AND j.updated_at >= :since
      AND o.status = 'queued' AND o.doubted_at IS NULL AND o.attempt_opened_at IS NULL)
RETURNING id;

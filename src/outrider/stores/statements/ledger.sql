-- A job's part of the ledger: its members and rows, and what is given up or put in doubt.

-- name: load_remainder
-- Includes whether the provider accepted it after all, in the previous run or an earlier one.
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

-- name: load_members
SELECT recipient_id,
       CASE :kind::int WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END,
       attributes, invalid, duplicate, false
  FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first_position AND :last_position
   AND (message_id IS NULL OR message_id = :message_id)
 ORDER BY position;

-- name: load_drawn_members
-- As `load_members`, for those with a draw in this range, and for a variant in its own.
SELECT recipient_id,
       CASE :kind::int WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END,
       attributes, invalid, duplicate, false
  FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first_position AND :last_position
   AND (message_id IS NULL OR message_id = :message_id)
   AND outrider_draw(:salt::text, recipient_id) BETWEEN :first_draw AND :last_draw
   AND (:first_choice::bigint IS NULL
        OR outrider_draw(:choice_salt::text, recipient_id) BETWEEN :first_choice AND :last_choice)
 ORDER BY position;

-- name: load_job_rows
SELECT id::text, recipient_id, status,
       attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL,
       next_attempt_at, doubted_at IS NOT NULL, attempts, attempt_contract_id, maybe_received,
       created_at, uncounted_calls, repeats, contract_id
  FROM channel_outbox WHERE run_id = :run_id AND job_id = :job_id;

-- name: doubt_abandoned
-- Attempts that a former holder of the job left open, at a gateway that remembers no references.
UPDATE channel_outbox SET doubted_at = :now, reason = 'worker_lost', next_attempt_at = NULL,
       updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND doubted_at IS NULL
   AND attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL AND attempt_fence < :fence
RETURNING id::text;

-- name: bury_waiting
-- Items of a job that is given up or stopped: failed, or skipped if never attempted; unless an
-- earlier attempt may have arrived.
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
-- Items that must not be called again: a former holder of the job left them open, and repeats are
-- used up or the gateway does not remember; or an earlier silence is older than its memory.
UPDATE channel_outbox
   SET doubted_at = :now, next_attempt_at = NULL, updated_at = :now,
       reason = CASE WHEN reason = 'restored' THEN reason
                     WHEN attempt_opened_at IS NOT NULL AND repeats >= :repeats_max
                     THEN 'worker_lost_repeatedly' ELSE 'worker_lost' END
 WHERE id IN window(id uuid)
   AND status = 'queued' AND doubted_at IS NULL AND attempt_closed_at IS NULL
   AND ((attempt_opened_at IS NOT NULL AND attempt_fence < :fence)
        OR (attempt_opened_at IS NULL AND maybe_received));

-- Single messages: intents enter the ledger in windows, and lanes take out what is due.

-- name: insert_lane
INSERT INTO job_queue (id, tenant_id, workspace_id, job_type, submission_target, lane, mode,
                       item_count, max_attempts, run_at, created_at, updated_at)
VALUES (:id, :tenant_id, :workspace_id, 'submission_lane', :submission_target, :lane, :mode, 0, 0,
        :now, :now, :now)
ON CONFLICT (tenant_id, workspace_id, submission_target, lane) WHERE run_id IS NULL DO NOTHING;

-- name: places
-- Contracts by their checksums, which have no lane, and lanes by their targets and numbers.
SELECT sha256, NULL::int, id::text FROM contract_snapshots
 WHERE sha256 IN window(name text)
UNION ALL
SELECT j.submission_target, j.lane, j.id::text
  FROM window(name text, lane int) AS item
  JOIN job_queue j ON j.submission_target = item.name AND j.lane = item.lane
 WHERE j.tenant_id = :tenant_id AND j.workspace_id = :workspace_id AND j.run_id IS NULL;

-- name: insert_intents
-- Those that are new, and whether their lanes are woken already: in Postgres they are, as by
-- wake_lanes; in SQLite that takes another statement. A lane that is remembered is looked for,
-- should the database be another one by now.
-- postgres:
WITH inserted AS (
  INSERT INTO channel_outbox (
    id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
    fallback_contract_id, recipient_id, recipient_address, payload, idempotency_key, status,
    intent_status, next_attempt_at, expires_at, topic, transactional, callback_id, time_zone,
    created_at, updated_at)
  SELECT id, :tenant_id, :workspace_id, 'intent', job_id, channel, provider, submission_target,
         contract_id, fallback_contract_id, intent_id, address, payload::json, decode(key, 'hex'),
         'queued', 'PENDING', :now, expires_at, topic, transactional, callback_id, time_zone, :now,
         :now
    FROM window(id uuid, job_id uuid, channel text, provider text, submission_target text,
                contract_id int, fallback_contract_id int, intent_id text, payload text, key text,
                expires_at timestamptz, address text, topic text, transactional boolean,
                callback_id uuid, time_zone text) AS item
   WHERE item.job_id = ANY (ARRAY(
           SELECT j.id FROM job_queue j
            WHERE j.id = ANY (ARRAY(
                    SELECT job_id FROM window(job_id uuid) AS lane))))
     AND decode(item.key, 'hex') <> ALL (ARRAY(
           SELECT k.key FROM retired_keys k
            WHERE k.workspace_id = :workspace_id AND k.key = ANY (ARRAY(
                    SELECT decode(key, 'hex') FROM window(key text) AS known))))
  ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
  RETURNING recipient_id, job_id
), woken AS (
  UPDATE job_queue SET run_at = :now
   WHERE id = ANY (ARRAY(SELECT DISTINCT job_id FROM inserted))
     AND (run_at IS NULL OR run_at > :now)
)
SELECT recipient_id, true FROM inserted;
-- sqlite:
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
  fallback_contract_id, recipient_id, recipient_address, payload, idempotency_key, status,
  intent_status, next_attempt_at, expires_at, topic, transactional, callback_id, time_zone,
  created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, 'intent', job_id, channel, provider, submission_target,
       contract_id, fallback_contract_id, intent_id, address, payload, decode(key, 'hex'),
       'queued', 'PENDING', :now, expires_at, topic, transactional, callback_id, time_zone, :now,
         :now
  FROM window(id uuid, job_id uuid, channel text, provider text, submission_target text,
              contract_id int, fallback_contract_id int, intent_id text, payload text, key text,
              expires_at timestamptz, address text, topic text, transactional boolean,
              callback_id uuid, time_zone text) AS item
 WHERE EXISTS (SELECT 1 FROM job_queue j WHERE j.id = item.job_id)
   AND NOT EXISTS (SELECT 1 FROM retired_keys k
                    WHERE k.workspace_id = :workspace_id AND k.key = decode(item.key, 'hex'))
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING recipient_id, false;

-- name: wake_lanes
-- Something new is due. A lane that is locked keeps the wish until it is released.
UPDATE job_queue SET run_at = :now
 WHERE id IN window(id uuid)
   AND (run_at IS NULL OR run_at > :now);

-- name: intents_by_key
SELECT encode(o.idempotency_key, 'hex'), o.recipient_id, o.submission_target, o.payload,
       o.intent_status,
       CASE o.intent_status WHEN 'ACCEPTED' THEN 'accepted' WHEN 'REJECTED' THEN o.reason END,
       o.exhausted_reason, o.attempts, o.status, o.doubted_at, o.created_at, o.updated_at,
       o.id::text, o.contract_id, o.topic, o.transactional, o.reason, o.error,
       CASE WHEN o.next_attempt_at IS NOT NULL THEN o.waits_for END,
       (SELECT c.url FROM callback_endpoints c WHERE c.id = o.callback_id), o.time_zone
  FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.origin = 'intent'
   AND o.idempotency_key = ANY (ARRAY(
         SELECT decode(key, 'hex') FROM window(key text) AS item));

-- name: due_in_lane
-- What is due now and not too late, and what a former holder of the lane left open.
SELECT id::text, recipient_id, encode(idempotency_key, 'hex'), contract_id, payload, attempts,
       fallback_contract_id, attempt_contract_id, maybe_received,
       attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL,
       coalesce(due_at, created_at) AS created_at, origin, channel, recipient_address, kind, template,
       urgent, uncounted_calls, expires_at, repeats, topic, transactional, time_zone
  FROM channel_outbox
 WHERE job_id = :job_id AND run_id IS NULL AND next_attempt_at <= :now
   AND status = 'queued' AND doubted_at IS NULL
   AND (attempt_opened_at IS NULL OR attempt_fence < :fence)
   AND (expires_at IS NULL OR expires_at > :now OR attempt_opened_at IS NOT NULL)
 ORDER BY next_attempt_at, channel_outbox.id LIMIT :most;

-- name: release_lane
-- At once if it was woken meanwhile; else due with its next item, but not before `not_before`.
UPDATE job_queue AS j SET status = 'queued', locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, attempts = 0, updated_at = :now,
       run_at = coalesce(j.run_at,
         (SELECT CASE WHEN next.due IS NOT NULL THEN greatest(next.due, :not_before) END
            FROM (SELECT min(o.next_attempt_at) AS due FROM channel_outbox o
                   WHERE o.job_id = j.id AND o.run_id IS NULL
                     AND o.next_attempt_at IS NOT NULL) next))
 WHERE j.id = :job_id AND j.fence = :fence AND j.status = 'locked'
RETURNING j.id::text;

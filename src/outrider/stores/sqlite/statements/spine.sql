-- Every statement the kernel can name, in SQLite's dialect. The same names stand in
-- ../../postgres/statements/. A window arrives as one JSON array of rows in :window.

-- name: insert_campaign
INSERT INTO campaigns (id, tenant_id, workspace_id, name, definition, created_at)
VALUES (:id, :tenant_id, :workspace_id, :name, :definition, :now);

-- name: insert_phases
INSERT INTO campaign_phases (campaign_id, phase, ordinal, updated_at)
SELECT :campaign_id, value ->> 0, value ->> 1, :now FROM json_each(:window);

-- name: insert_assets
INSERT INTO assets (id, version, tenant_id, workspace_id, campaign_id, message_id, channel,
                    submission_target, subject, body, script_version, topic, transactional,
                    created_at)
SELECT value ->> 0, 1, :tenant_id, :workspace_id, :campaign_id, value ->> 1, value ->> 2,
       value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, :now
  FROM json_each(:window);

-- name: mark_duplicates
-- A member is a duplicate on an address if an earlier member gets the same message there. Only
-- addresses that several have are ranked; mostly there are none.
WITH addressed AS (
  SELECT position, message_id, 1 AS kind, lower(email) AS address FROM audience_members
   WHERE campaign_id = :campaign_id AND email IS NOT NULL AND invalid & 1 = 0
  UNION ALL
  SELECT position, message_id, 2, phone FROM audience_members
   WHERE campaign_id = :campaign_id AND phone IS NOT NULL AND invalid & 2 = 0
  UNION ALL
  SELECT position, message_id, 4, push_token FROM audience_members
   WHERE campaign_id = :campaign_id AND push_token IS NOT NULL AND invalid & 4 = 0
), shared AS MATERIALIZED (
  SELECT kind, address FROM addressed GROUP BY kind, address HAVING count(*) > 1
), ranked AS (
  SELECT position, message_id, kind,
         row_number() OVER (PARTITION BY kind, address, message_id ORDER BY position) AS nth,
         min(CASE WHEN message_id IS NULL THEN position END)
           OVER (PARTITION BY kind, address) AS first_to_get_all,
         min(position) OVER (PARTITION BY kind, address) AS first
    FROM shared CROSS JOIN addressed USING (kind, address)
), repeated AS (
  SELECT position, sum(kind) AS kinds FROM ranked
   WHERE nth > 1 OR first_to_get_all < position OR (message_id IS NULL AND first < position)
   GROUP BY position
)
UPDATE audience_members SET duplicate = repeated.kinds FROM repeated
 WHERE campaign_id = :campaign_id AND audience_members.position = repeated.position;

-- name: set_audience_size
UPDATE campaigns SET audience_size = :size WHERE id = :campaign_id;

-- name: campaign_by_id
SELECT id, name, definition, audience_size, last_sequence, created_at FROM campaigns
 WHERE id = :campaign_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: phases_of_campaign
SELECT phase, state, run_id, updated_at, last_sequence, reason, started_at, finished_at
  FROM campaign_phases
 WHERE campaign_id = :campaign_id ORDER BY ordinal;

-- name: assets_of_campaign
SELECT id, version, message_id, channel, submission_target, subject, body, script_version,
       topic, transactional
  FROM assets WHERE campaign_id = :campaign_id ORDER BY id;

-- name: asset_by_id
SELECT id, version, message_id, channel, submission_target, subject, body, script_version,
       topic, transactional
  FROM assets WHERE id = :asset_id;

-- name: lock_phase
SELECT state, run_id FROM campaign_phases WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: set_phase_state
-- Comes after its event: a trigger takes note of a state that came without one.
UPDATE campaign_phases
   SET state = :state, run_id = :run_id, last_sequence = :sequence, reason = :reason,
       started_at = CASE WHEN :begins THEN :now ELSE started_at END,
       finished_at = CASE WHEN :ends THEN :now END,
       progress = CASE WHEN :begins THEN NULL ELSE progress END, updated_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: next_sequence
-- The counter on the campaign's row: commit order is sequence order.
UPDATE campaigns SET last_sequence = last_sequence + 1 WHERE id = :campaign_id
RETURNING last_sequence;

-- name: insert_campaign_event
INSERT INTO campaign_events (campaign_id, sequence, type, phase, payload, created_at)
VALUES (:campaign_id, :sequence, :type, :phase, :payload, :now);

-- name: insert_audit
INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, run_id, job_id,
                                outbox_id, actor, event, detail, created_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, :now
  FROM json_each(:window);

-- name: audit_of_run
SELECT id, created_at, actor, event, run_id, job_id, outbox_id, detail
  FROM campaign_audit_log
 WHERE +tenant_id = :tenant_id AND +workspace_id = :workspace_id
   AND run_id = :run_id AND id > :after
 ORDER BY id LIMIT :most;

-- name: audit_of_campaign
SELECT id, created_at, actor, event, run_id, job_id, outbox_id, detail
  FROM campaign_audit_log
 WHERE +tenant_id = :tenant_id AND +workspace_id = :workspace_id
   AND campaign_id = :campaign_id AND id > :after
 ORDER BY id LIMIT :most;

-- name: insert_contracts
-- Content-addressed: the same contract is stored once, however often it is used.
INSERT INTO contract_snapshots (sha256, submission_target, document, created_at)
SELECT value ->> 0, value ->> 1, value ->> 2, :now FROM json_each(:window) WHERE true
ON CONFLICT (sha256) DO NOTHING;

-- name: contracts_by_sha256
SELECT id, sha256 FROM contract_snapshots
 WHERE sha256 IN (SELECT value ->> 0 FROM json_each(:window));

-- name: contract_by_id
SELECT document FROM contract_snapshots WHERE id = :contract_id;

-- name: count_batches
-- How many members of each batch of positions get all messages, or one named message.
SELECT position / :batch_size AS batch, message_id, count(*) FROM audience_members
 WHERE campaign_id = :campaign_id GROUP BY 1, 2 ORDER BY 1;

-- name: insert_run
INSERT INTO campaign_runs (id, tenant_id, workspace_id, campaign_id, phase, channel, intended,
                           scheduled_for, retry_of, plan_version, approved_at, created_at)
VALUES (:id, :tenant_id, :workspace_id, :campaign_id, :phase, :channel, :intended,
        :scheduled_for, :retry_of, :plan_version, :approved_at, :now);

-- name: insert_jobs
INSERT INTO job_queue (id, tenant_id, workspace_id, run_id, job_type, submission_target, asset_id,
                       contract_id, fallback_contract_id, first_position, last_position,
                       item_count, retry_job_id, detail, mode, queue_group, max_attempts,
                       logical_attempts_max, retry_delay_seconds, run_at, paused, created_at,
                       updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, :run_id, value ->> 1, value ->> 2, value ->> 3,
       value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10,
       value ->> 11, (value ->> 11) || '/' || :workspace_id || '/' || (value ->> 2),
       :max_attempts, :logical_attempts_max, :retry_delay_seconds, :run_at, :held, :now, :now
  FROM json_each(:window);

-- name: queue_groups
-- The groups that have jobs waiting, and when the first of each is due: one look a group, however
-- many jobs wait in it.
WITH RECURSIVE waiting (queue_group) AS (
  SELECT min(queue_group) FROM job_queue
   WHERE status = 'queued' AND paused = 0 AND run_id IS NOT NULL AND queue_group > :after
  UNION ALL
  SELECT (SELECT min(j.queue_group) FROM job_queue j
           WHERE j.status = 'queued' AND j.paused = 0 AND j.run_id IS NOT NULL
             AND j.queue_group > waiting.queue_group)
    FROM waiting WHERE waiting.queue_group IS NOT NULL
)
SELECT queue_group,
       (SELECT min(j.run_at) FROM job_queue j
         WHERE j.status = 'queued' AND j.paused = 0 AND j.run_id IS NOT NULL
           AND j.queue_group = waiting.queue_group AND j.run_at > '') AS run_at
  FROM waiting WHERE queue_group IS NOT NULL LIMIT :most;

-- name: claim_jobs
-- The oldest due jobs of a group become ours: a higher fence shuts out whoever held them before.
UPDATE job_queue
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now
 WHERE id IN (SELECT id FROM job_queue
               WHERE status = 'queued' AND paused = 0 AND run_id IS NOT NULL
                 AND queue_group = :queue_group AND run_at <= :now
               ORDER BY run_at, id LIMIT :most)
RETURNING id;

-- name: claim_lanes
-- Those of a mode that have waited longest; with `targets` only theirs, and none of `closed` ones.
UPDATE job_queue
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now, run_at = NULL
 WHERE id IN (SELECT id FROM job_queue
               WHERE status = 'queued' AND paused = 0 AND run_id IS NULL AND mode = :mode
                 AND run_at <= :now
                 AND (:targets IS NULL
                      OR submission_target IN (SELECT value FROM json_each(:targets)))
                 AND submission_target NOT IN (SELECT value FROM json_each(:closed))
               ORDER BY run_at, id LIMIT :most)
RETURNING id, tenant_id, workspace_id, submission_target, mode, fence, attempts, lease_expires_at;

-- name: next_lanes_due
SELECT 'realtime', min(run_at) AS run_at FROM job_queue
 WHERE status = 'queued' AND paused = 0 AND run_id IS NULL AND mode = 'realtime'
   AND (:targets IS NULL OR submission_target IN (SELECT value FROM json_each(:targets)))
   AND submission_target NOT IN (SELECT value FROM json_each(:closed))
UNION ALL
SELECT 'batch', min(run_at) AS run_at FROM job_queue
 WHERE status = 'queued' AND paused = 0 AND run_id IS NULL AND mode = 'batch'
   AND (:targets IS NULL OR submission_target IN (SELECT value FROM json_each(:targets)))
   AND submission_target NOT IN (SELECT value FROM json_each(:closed));

-- name: claim_given_job
-- One that failed need not be queued again first: whoever names it has waited for it.
UPDATE job_queue
   SET status = 'locked', fence = fence + 1, locked_by = :worker_id, locked_at = :now,
       heartbeat_at = :now, lease_expires_at = :lease_expires_at, updated_at = :now,
       run_at = CASE WHEN run_id IS NOT NULL THEN run_at END
 WHERE id = :job_id AND status IN ('queued', 'failed') AND paused = 0 AND run_at <= :now
RETURNING run_id IS NULL, id, tenant_id, workspace_id, submission_target, mode, fence, attempts,
          lease_expires_at;

-- name: job_standing
SELECT status, run_at, paused FROM job_queue WHERE id = :job_id;

-- name: lock_runs_to_start
-- Whose first jobs these are. What was stopped before its start never starts.
SELECT id, plan_version, campaign_id, tenant_id, workspace_id FROM campaign_runs
 WHERE status = 'queued' AND stopped_at IS NULL
   AND id IN (SELECT run_id FROM job_queue
               WHERE id IN (SELECT value ->> 0 FROM json_each(:window)))
 ORDER BY id;

-- name: start_run
UPDATE campaign_runs SET status = 'running', started_at = :now, status_seq = :status_seq
 WHERE id = :run_id;

-- name: claimed_jobs
SELECT j.id, j.tenant_id, j.workspace_id, r.campaign_id, j.run_id, j.asset_id,
       j.contract_id, j.fallback_contract_id, j.first_position, j.last_position, j.item_count,
       j.attempts,
       j.max_attempts, j.fence, r.scheduled_for, j.cancelled, r.retry_of, j.retry_job_id,
       j.logical_attempt, r.plan_version, j.lease_expires_at,
       j.queue_group, j.losses, r.status = 'queued'
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN (SELECT value ->> 0 FROM json_each(:window)) AND j.asset_id IS NOT NULL
 ORDER BY j.id;

-- name: heartbeat_jobs
UPDATE job_queue SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS fence FROM json_each(:window)) held
 WHERE job_queue.id = held.id AND job_queue.fence = held.fence AND status = 'locked'
RETURNING job_queue.id;

-- name: hold_job
-- Prove, and keep for the rest of this transaction, that the job is still ours; and tell whether
-- its phase was paused or stopped meanwhile.
UPDATE job_queue SET heartbeat_at = :now, lease_expires_at = :lease_expires_at
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING paused OR cancelled;

-- name: release_job
-- What was cancelled meanwhile is due at once, unless only a verdict can wake it.
UPDATE job_queue SET status = 'queued', locked_by = NULL, locked_at = NULL,
       run_at = CASE WHEN cancelled AND :run_at IS NOT NULL THEN :now ELSE :run_at END,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING id;

-- name: fail_job
-- What was cancelled meanwhile is tried again at once; giving it up calls nobody.
UPDATE job_queue SET status = 'failed',
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       run_at = CASE WHEN cancelled THEN :now ELSE :run_at END,
       last_error = :error, locked_by = NULL, locked_at = NULL, heartbeat_at = NULL,
       lease_expires_at = NULL, updated_at = :now
  FROM (SELECT j.id AS job_id,
               (SELECT count(*) FROM channel_outbox o
                 WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status <> 'queued') AS ended
          FROM job_queue j
         WHERE j.id = :job_id) past
 WHERE job_queue.id = past.job_id AND job_queue.id = :job_id AND fence = :fence
   AND status = 'locked'
RETURNING id, attempts >= max_attempts;

-- name: requeue_failed
UPDATE job_queue SET status = 'queued', updated_at = :now
 WHERE status = 'failed' AND run_at <= :now
RETURNING id;

-- name: rescue_expired
-- Leases that ran out, and whatever the lease says, locks without a heartbeat for too long.
-- Items that have ended since a worker was last lost are progress, and what was lost before it counts
-- no more.
UPDATE job_queue SET status = 'queued', run_at = :now,
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       last_error = 'lease expired: ' || locked_by, locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
  FROM (SELECT j.id AS job_id,
               (SELECT count(*) FROM channel_outbox o
                 WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status <> 'queued') AS ended
          FROM job_queue j
         WHERE j.status = 'locked'
           AND (j.lease_expires_at <= :now OR j.heartbeat_at <= :stale_before)) past
 WHERE job_queue.id = past.job_id
RETURNING id, run_id, tenant_id, workspace_id, last_error, fence, attempts - max_attempts;

-- name: lock_holders
SELECT DISTINCT locked_by FROM job_queue WHERE status = 'locked';

-- name: jobs_held_by
SELECT id, run_id, fence FROM job_queue WHERE status = 'locked' AND locked_by = :worker_id;

-- name: take_back_unbegun
-- A worker died, and its own record says which calls it had begun: what else it had opened was never
-- called, and waits as before.
UPDATE channel_outbox
   SET attempts = attempts - CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       next_attempt_at = coalesce(next_attempt_at, :now), updated_at = :now
 WHERE status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NOT NULL
   AND attempt_closed_at IS NULL AND attempt_fence = :fence AND job_id = :job_id
   AND run_id = :run_id
   AND id NOT IN (SELECT value ->> 0 FROM json_each(:window))
RETURNING id;

-- name: take_back_unbegun_in_lane
-- A worker died, and its own record says which calls it had begun: what else it had opened was never
-- called, and waits as before.
UPDATE channel_outbox
   SET attempts = attempts - CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       next_attempt_at = coalesce(next_attempt_at, :now), updated_at = :now
 WHERE status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NOT NULL
   AND attempt_closed_at IS NULL AND attempt_fence = :fence AND job_id = :job_id
   AND run_id IS NULL AND next_attempt_at IS NOT NULL
   AND id NOT IN (SELECT value ->> 0 FROM json_each(:window))
RETURNING id;

-- name: rescue_from
-- Jobs of workers that are known to be dead need not wait for their leases.
UPDATE job_queue SET status = 'queued', run_at = :now,
       attempts = attempts + 1,
       max_attempts = max_attempts + CASE WHEN ended > ended_when_lost THEN losses ELSE 0 END,
       losses = CASE WHEN ended > ended_when_lost THEN 1 ELSE losses + 1 END,
       ended_when_lost = ended,
       last_error = 'worker died: ' || locked_by, locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
  FROM (SELECT j.id AS job_id,
               (SELECT count(*) FROM channel_outbox o
                 WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status <> 'queued') AS ended
          FROM job_queue j
         WHERE j.status = 'locked'
           AND j.locked_by IN (SELECT value ->> 0 FROM json_each(:window))) past
 WHERE job_queue.id = past.job_id
RETURNING id, run_id, tenant_id, workspace_id, last_error, fence, attempts - max_attempts;

-- name: wake_resolved
-- Parked jobs that have no verdict to wait for, or have other items to go on with, or were stopped:
-- a stop waits for no verdict. And lanes whose next item was set after they were released.
UPDATE job_queue SET run_at = :now, updated_at = :now
 WHERE status = 'queued' AND paused = 0 AND run_at IS NULL
   AND CASE WHEN run_id IS NOT NULL THEN
         (SELECT job_queue.cancelled OR count(o.doubted_at) = 0 OR count(o.next_attempt_at) > 0
            FROM channel_outbox o
           WHERE o.run_id = job_queue.run_id AND o.job_id = job_queue.id)
       ELSE
         (SELECT count(*) > 0 FROM (
           SELECT 1 FROM channel_outbox o
            WHERE o.job_id = job_queue.id AND o.run_id IS NULL AND o.next_attempt_at IS NOT NULL
            LIMIT 1) next)
       END
RETURNING id;

-- name: load_members
SELECT recipient_id,
       CASE :kind WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END,
       attributes, invalid, duplicate, false
  FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first_position AND :last_position
   AND (message_id IS NULL OR message_id = :message_id)
 ORDER BY position;

-- name: load_job_rows
SELECT id, recipient_id, status, attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL,
       next_attempt_at, doubted_at IS NOT NULL, attempts, attempt_contract_id, maybe_received,
       created_at, uncounted_calls, repeats, contract_id
  FROM channel_outbox WHERE run_id = :run_id AND job_id = :job_id;

-- name: reserve_window
-- Reserve and open in one: a row that exists already is left alone and not returned. That the job
-- is ours, and goes on where attempts are opened, is proved by the same statement.
WITH item AS MATERIALIZED (
  SELECT value ->> 0 AS id, value ->> 1 AS recipient_id, value ->> 2 AS address,
         value ->> 3 AS subject, value ->> 4 AS key, value ->> 5 AS status,
         value ->> 6 AS reason, value ->> 7 AS error
    FROM json_each(:window)
), screened AS (
  SELECT item.id, item.recipient_id, item.address, item.subject, item.key, item.error,
         CASE WHEN item.status IS NOT NULL THEN item.status
              WHEN s.address IS NOT NULL OR t.address IS NOT NULL THEN 'skipped'
              ELSE 'queued' END AS status,
         CASE WHEN item.status IS NULL AND (s.address IS NOT NULL OR t.address IS NOT NULL)
              THEN 'suppressed' ELSE item.reason END AS reason
    FROM item LEFT JOIN suppressions s
      ON s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id AND s.channel = :channel
     AND s.address = lower(item.address) AND s.topic = ''
     AND (s.includes_transactional OR NOT :transactional)
    LEFT JOIN suppressions t
      ON t.tenant_id = :tenant_id AND t.workspace_id = :workspace_id AND t.channel = :channel
     AND t.address = lower(item.address) AND t.topic = :topic
     AND (t.includes_transactional OR NOT :transactional)
)
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, subject,
  idempotency_key, status, skipped, intent_status, reason, error, attempts, attempt_fence,
  attempt_opened_at, expires_at, topic, transactional, created_at, updated_at)
SELECT id, :tenant_id, :workspace_id, 'campaign', :run_id, :job_id, :channel, :provider,
       :submission_target, :contract_id, recipient_id, address, :asset_id, :asset_version,
       subject, unhex(key), status, status = 'skipped',
       CASE status WHEN 'queued' THEN 'PENDING' END, reason, error,
       status = 'queued', CASE status WHEN 'queued' THEN :fence END,
       CASE status WHEN 'queued' THEN :now END, :expires_at, :topic, :transactional, :now, :now
  FROM screened
 WHERE EXISTS (SELECT 1 FROM job_queue WHERE id = :job_id AND fence = :fence AND status = 'locked'
                  AND (NOT :opens OR NOT (paused OR cancelled)))
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id, status;

-- name: reserve_fresh
-- Of a job that nobody held before, so none of its rows can exist.
-- as reserve_window without ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING

-- name: doubt_abandoned
-- Attempts that a former holder of the job left open, at a gateway that forgets.
UPDATE channel_outbox SET doubted_at = :now, reason = 'worker_lost', next_attempt_at = NULL,
       updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND doubted_at IS NULL
   AND attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL AND attempt_fence < :fence
RETURNING id;

-- name: archive_abandoned
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, :now,
       'SENT_NO_ANSWER', 'abandoned', 'worker_lost'
  FROM json_each(:window) item JOIN channel_outbox o ON o.id = item.value ->> 0
 WHERE o.status = 'queued' AND o.attempt_opened_at IS NOT NULL AND o.attempt_closed_at IS NULL
   AND o.attempt_fence < :fence AND o.doubted_at IS NULL;

-- name: skip_suppressed
-- Opted out before this attempt; only where no earlier one may have arrived.
UPDATE channel_outbox SET status = 'skipped', skipped = true,
       intent_status = CASE origin WHEN 'intent' THEN 'REJECTED' END,
       reason = 'suppressed', next_attempt_at = NULL, waits_for = NULL, updated_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window))
   AND status = 'queued' AND attempt_opened_at IS NULL AND NOT maybe_received
   AND EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = channel_outbox.tenant_id
                  AND s.workspace_id = channel_outbox.workspace_id
                  AND s.channel = channel_outbox.channel
                  AND s.address = lower(channel_outbox.recipient_address)
                  AND (s.topic = '' OR s.topic = channel_outbox.topic)
                  AND (s.includes_transactional OR NOT channel_outbox.transactional));

-- name: doubt_suppressed
-- Opted out, and an earlier attempt may have arrived: to ask again might be to send it, so somebody
-- has to find out in another way. What a former holder left open is in the history already.
UPDATE channel_outbox SET doubted_at = :now, reason = 'suppressed', next_attempt_at = NULL,
       waits_for = NULL, repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       attempt_opened_at = NULL, attempt_fence = NULL, progress = NULL,
       maybe_received = true, updated_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window))
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
RETURNING id;

-- name: reopen_window
-- What was left open is called again as the same attempt. Whoever opted out meanwhile is left as it
-- is, whatever became of earlier attempts.
UPDATE channel_outbox
   SET attempts = attempts + CASE WHEN attempt_opened_at IS NULL AND repeats = 0 THEN 1 ELSE 0 END,
       repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       repeat_target = CASE WHEN maybe_received OR attempt_opened_at IS NOT NULL
                            THEN :target ELSE repeat_target END,
       repeat_memory = CASE WHEN maybe_received OR attempt_opened_at IS NOT NULL
                            THEN :memory ELSE repeat_memory END,
       attempt_contract_id = :attempt_contract_id, attempt_fence = :fence, attempt_opened_at = :now,
       maybe_received = maybe_received OR attempt_opened_at IS NOT NULL, waits_for = NULL,
       next_attempt_at = CASE WHEN run_id IS NULL THEN next_attempt_at END, updated_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window))
   AND status = 'queued' AND doubted_at IS NULL
   AND (attempt_opened_at IS NULL OR attempt_fence < :fence)
   AND NOT EXISTS (SELECT 1 FROM suppressions s
                   WHERE s.tenant_id = channel_outbox.tenant_id
                     AND s.workspace_id = channel_outbox.workspace_id
                     AND s.channel = channel_outbox.channel
                     AND s.address = lower(channel_outbox.recipient_address)
                     AND (s.topic = '' OR s.topic = channel_outbox.topic)
                     AND (s.includes_transactional OR NOT channel_outbox.transactional))
RETURNING id, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

-- name: open_due
-- As reopen_window, for what nobody has open, while the job's own lease lasts: that the job is ours
-- and goes on is proved by the same statement.
UPDATE channel_outbox
   SET attempts = attempts + CASE WHEN repeats = 0 THEN 1 ELSE 0 END,
       repeat_target = CASE WHEN maybe_received THEN :target ELSE repeat_target END,
       repeat_memory = CASE WHEN maybe_received THEN :memory ELSE repeat_memory END,
       attempt_contract_id = :attempt_contract_id, attempt_fence = :fence, attempt_opened_at = :now,
       waits_for = NULL,
       next_attempt_at = CASE WHEN run_id IS NULL THEN next_attempt_at END, updated_at = :now
 WHERE EXISTS (SELECT 1 FROM job_queue WHERE id = :job_id AND fence = :fence AND status = 'locked'
                  AND NOT paused AND NOT cancelled)
   AND id IN (SELECT value ->> 0 FROM json_each(:window))
   AND status = 'queued' AND doubted_at IS NULL AND attempt_opened_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM suppressions s
                   WHERE s.tenant_id = channel_outbox.tenant_id
                     AND s.workspace_id = channel_outbox.workspace_id
                     AND s.channel = channel_outbox.channel
                     AND s.address = lower(channel_outbox.recipient_address)
                     AND (s.topic = '' OR s.topic = channel_outbox.topic)
                     AND (s.includes_transactional OR NOT channel_outbox.transactional))
RETURNING id, attempts, maybe_received, coalesce(due_at, created_at) AS submitted_at,
          uncounted_calls, repeats, coalesce(attempts_before, 0) AS attempts_before;

-- name: close_accepted
-- Only the attempt that was really made is closed: its number and fence must still stand. An
-- acceptance of the last attempt counts even after a verdict said that it never arrived.
UPDATE channel_outbox
   SET status = :status,
       intent_status = CASE WHEN channel_outbox.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(channel_outbox.exhausted_reason, item.exhausted_reason),
       progress = 'ANSWERED', reason = NULL,
       error = NULL, provider_message_id = item.message_id,
       attempt_closed_at = item.closed_at, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 3 AS closed_at, value ->> 4 AS intent_status,
               value ->> 5 AS exhausted_reason, value ->> 6 AS message_id
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND ((attempt_fence = item.fence AND attempt_opened_at IS NOT NULL)
        OR (attempt_fence IS NULL AND attempt_opened_at IS NULL));

-- name: close_proven
-- Accepted by proof: the gateway knows the reference from an earlier call, and what it said stays.
UPDATE channel_outbox
   SET status = :status,
       intent_status = CASE WHEN channel_outbox.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(channel_outbox.exhausted_reason, item.exhausted_reason),
       progress = 'ANSWERED', reason = item.reason, error = item.error,
       attempt_closed_at = item.closed_at, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 3 AS closed_at, value ->> 4 AS intent_status,
               value ->> 5 AS exhausted_reason, value ->> 6 AS reason,
               value ->> 7 AS error
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND attempt_fence = item.fence AND attempt_opened_at IS NOT NULL;

-- name: close_failed
UPDATE channel_outbox
   SET status = 'failed',
       intent_status = CASE WHEN channel_outbox.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(channel_outbox.exhausted_reason, item.exhausted_reason),
       progress = item.progress,
       reason = item.reason, error = item.error, attempt_closed_at = item.closed_at,
       doubted_at = NULL, next_attempt_at = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 3 AS closed_at, value ->> 4 AS intent_status,
               value ->> 5 AS exhausted_reason, value ->> 6 AS progress, value ->> 7 AS reason,
               value ->> 8 AS error
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND attempt_fence = item.fence AND attempt_opened_at IS NOT NULL;

-- name: archive_retried
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason, error)
SELECT o.id, o.attempts, o.repeats, o.attempt_fence, o.attempt_opened_at, item.value ->> 3,
       item.value ->> 4, item.value ->> 5, item.value ->> 6, item.value ->> 7
  FROM json_each(:window) item JOIN channel_outbox o ON o.id = item.value ->> 0
 WHERE o.status = 'queued' AND o.attempts = item.value ->> 1
   AND o.attempt_fence = item.value ->> 2 AND o.attempt_opened_at IS NOT NULL;

-- name: close_retried
UPDATE channel_outbox
   SET attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL, repeats = 0,
       reason = item.reason, error = item.error, next_attempt_at = item.next_attempt_at,
       maybe_received = item.maybe_received, doubted_at = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 6 AS reason, value ->> 7 AS error, value ->> 8 AS next_attempt_at,
               value ->> 9 AS maybe_received
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND attempt_fence = item.fence AND attempt_opened_at IS NOT NULL;

-- name: close_doubted
UPDATE channel_outbox
   SET doubted_at = item.closed_at,
       intent_status = CASE WHEN channel_outbox.intent_status = 'EXHAUSTED' THEN 'EXHAUSTED'
                            ELSE item.intent_status END,
       exhausted_reason = coalesce(channel_outbox.exhausted_reason, item.exhausted_reason),
       progress = item.progress, reason = item.reason,
       error = item.error, next_attempt_at = NULL, updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 3 AS closed_at, value ->> 4 AS progress, value ->> 5 AS reason,
               value ->> 6 AS error, value ->> 7 AS intent_status,
               value ->> 8 AS exhausted_reason
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND attempt_fence = item.fence AND attempt_opened_at IS NOT NULL;

-- name: give_back
-- A call that was no attempt: never begun, or turned away. It waits again, in its old place unless
-- it was told when to come back.
UPDATE channel_outbox
   SET attempts = channel_outbox.attempts - CASE WHEN channel_outbox.repeats = 0 THEN 1 ELSE 0 END,
       attempt_fence = NULL, attempt_opened_at = NULL, progress = NULL,
       uncounted_calls = uncounted_calls + item.calls,
       reason = coalesce(item.reason, channel_outbox.reason),
       error = coalesce(item.error, channel_outbox.error),
       waits_for = coalesce(item.waits_for, channel_outbox.waits_for), doubted_at = NULL,
       next_attempt_at = coalesce(item.next_attempt_at, channel_outbox.next_attempt_at, :now),
       updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt, value ->> 2 AS fence,
               value ->> 4 AS next_attempt_at, value ->> 5 AS reason, value ->> 6 AS error,
               value ->> 7 AS waits_for, value ->> 8 AS calls
          FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND status = 'queued' AND attempts = item.attempt
   AND attempt_fence = item.fence AND attempt_opened_at IS NOT NULL;

-- name: expire_items
-- What waits and could only be accepted too late has ended, and says what it waited for. What may
-- have arrived is exhausted too, so nobody calls it again: it is in doubt.
UPDATE channel_outbox
   SET status = CASE WHEN maybe_received THEN 'queued' ELSE 'failed' END,
       intent_status = 'EXHAUSTED', exhausted_reason = 'deadline_exceeded',
       reason = coalesce(
         (SELECT 'target_' || d.state FROM target_doors d
           WHERE d.submission_target = channel_outbox.submission_target AND d.state <> 'open'
             AND d.workspace_id IN ('', channel_outbox.workspace_id) LIMIT 1),
         waits_for, reason, 'deadline_passed'),
       doubted_at = CASE WHEN maybe_received THEN :now END,
       next_attempt_at = NULL, waits_for = NULL, updated_at = :now
 WHERE id IN (SELECT id FROM channel_outbox
               WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
                 AND status = 'queued' AND attempt_opened_at IS NULL AND doubted_at IS NULL
               ORDER BY expires_at LIMIT :most)
RETURNING CASE WHEN run_id IS NOT NULL THEN job_id END, id, origin, attempts, reason;

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
       doubted_at = CASE WHEN maybe_received THEN :now END,
       intent_status = CASE WHEN maybe_received THEN 'PENDING' END,
       reason = :reason, next_attempt_at = NULL, updated_at = :now
 WHERE run_id = :run_id AND job_id = :job_id AND status = 'queued' AND doubted_at IS NULL
   AND attempt_opened_at IS NULL;

-- name: lock_job
SELECT status, fence, item_count, attempts, max_attempts, cancelled
  FROM job_queue WHERE id = :job_id;

-- name: tally_job
SELECT count(*) FILTER (WHERE status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE status = 'failed'),
       count(*) FILTER (WHERE status = 'skipped'),
       count(*) FILTER (WHERE doubted_at IS NOT NULL),
       count(*) FILTER (WHERE status = 'queued' AND doubted_at IS NULL
                          AND attempt_opened_at IS NOT NULL),
       count(*) FILTER (WHERE status = 'queued' AND doubted_at IS NULL
                          AND attempt_opened_at IS NULL),
       min(next_attempt_at) AS next_attempt_at,
       count(*) FILTER (WHERE (reason = 'cancelled' AND status IN ('failed', 'skipped'))
                          OR (reason = 'job_dead' AND status = 'skipped'))
  FROM channel_outbox WHERE run_id = :run_id AND job_id = :job_id;

-- name: finish_job
UPDATE job_queue SET status = :status, outcome = :outcome, sent = :sent, failed = :failed,
       skipped = :skipped, unended = :unended, result = :result, run_at = NULL, locked_by = NULL,
       locked_at = NULL, heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE id = :job_id;

-- name: lock_run
SELECT status, campaign_id, phase, stopped_at, plan_version, approved_at
  FROM campaign_runs WHERE id = :run_id;

-- name: run_has_unfinished_jobs
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND outcome IS NULL);

-- name: run_outcomes
SELECT DISTINCT outcome FROM job_queue WHERE run_id = :run_id;

-- name: finish_run
UPDATE campaign_runs SET status = :status, finished_at = :now, status_seq = :status_seq
 WHERE id = :run_id;

-- name: run_by_id
SELECT id, campaign_id, phase, channel, status, intended, scheduled_for, retry_of, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs
 WHERE id = :run_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: runs_of_campaign
SELECT id, campaign_id, phase, channel, status, intended, scheduled_for, retry_of, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE campaign_id = :campaign_id ORDER BY created_at, id;

-- name: count_finished_jobs
-- Those that ended with every item; what ended with some in doubt is counted by its rows.
SELECT coalesce(sum(item_count), 0), coalesce(sum(sent), 0), coalesce(sum(failed), 0),
       coalesce(sum(skipped), 0)
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL AND unended = 0;

-- name: count_unfinished_jobs
SELECT coalesce(sum(item_count), 0) FROM job_queue
 WHERE run_id = :run_id AND (outcome IS NULL OR unended > 0);

-- name: count_unfinished_rows
-- The rows of jobs that have items without an ending; other jobs carry their counts. A CROSS JOIN keeps
-- its order in SQLite, so that no plan can read the rows of the whole run.
SELECT count(*),
       count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL),
       count(*) FILTER (WHERE o.doubted_at IS NOT NULL),
       count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE o.status = 'failed'),
       count(*) FILTER (WHERE o.status = 'skipped')
  FROM job_queue j CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 WHERE j.run_id = :run_id AND (j.outcome IS NULL OR j.unended > 0);

-- name: count_jobs
SELECT status, outcome, count(*), sum(attempts), max(last_error) FROM job_queue
 WHERE run_id = :run_id GROUP BY 1, 2 ORDER BY 1, 2;

-- name: count_reasons
SELECT status, reason, count(*) FROM channel_outbox
 WHERE run_id = :run_id AND reason IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2;

-- name: failure_sample
-- Why items of a run failed: the reasons of so many of them, each with one of its errors.
SELECT reason, min(error), count(*)
  FROM (SELECT reason, error FROM channel_outbox
         WHERE run_id = :run_id AND status = 'failed' LIMIT :most) failed
 GROUP BY reason;

-- name: failure_sample_of_job
SELECT reason, min(error), count(*)
  FROM (SELECT reason, error FROM channel_outbox
         WHERE run_id = :run_id AND job_id = :job_id AND status = 'failed' LIMIT :most) failed
 GROUP BY reason;

-- name: failed_job_of_run
-- One of those that failed, a dead one if there is any, and how many there are.
SELECT id, status, (SELECT count(*) FROM job_queue f
                        WHERE f.run_id = :run_id AND f.outcome = 'failed')
  FROM job_queue WHERE run_id = :run_id AND outcome = 'failed'
 ORDER BY status, job_queue.id LIMIT 1;

-- name: last_error_of_job
SELECT last_error FROM job_queue WHERE id = :job_id;

-- name: ledger_page
-- All rows of a run in the order of its index, so that each page costs only itself.
SELECT o.job_id, o.id, lower(hex(o.idempotency_key)), o.status, o.submission_target,
       o.repeat_target, o.repeat_memory,
       EXISTS (SELECT 1 FROM attempt_history h
                WHERE h.outbox_id = o.id AND h.outcome = 'abandoned' AND h.attempt < o.attempts),
       EXISTS (SELECT 1 FROM attempt_history h
                WHERE h.outbox_id = o.id AND h.outcome = 'disproved')
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND (o.job_id, o.id) > (:after_job, :after_id)
 ORDER BY o.job_id, o.id LIMIT :most;

-- name: key_is_unique_in_schema
-- Is the constraint that makes duplicates impossible really in this database?
SELECT EXISTS (
  SELECT 1 FROM pragma_index_list('channel_outbox') i
   WHERE i."unique" = 1 AND i.partial = 0
     AND (SELECT group_concat(name)
            FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
         = 'tenant_id,workspace_id,idempotency_key');

-- name: items_by_id
SELECT id, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, attempt_opened_at,
       attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, lower(hex(idempotency_key)), run_id,
       job_id, subject, waits_for, template, domain_event_id, step_id,
       (SELECT e.event_id FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT e.trigger_name FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT s.step_order FROM workflow_steps s WHERE s.id = channel_outbox.step_id),
       topic, transactional
  FROM channel_outbox
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN (SELECT value ->> 0 FROM json_each(:window))
 ORDER BY id;

-- name: items_of_run
SELECT id, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, attempt_opened_at,
       attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, lower(hex(idempotency_key)), run_id,
       job_id, subject, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM channel_outbox
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND run_id = :run_id AND (job_id, id) > (:after_job, :after_id)
 ORDER BY job_id, id LIMIT :most;

-- name: attempts_of_items
SELECT outbox_id, attempt, opened_at, closed_at, progress, outcome, reason, error,
       provider_message_id, repeat
  FROM submission_attempts
 WHERE outbox_id IN (SELECT value ->> 0 FROM json_each(:window))
 ORDER BY outbox_id, attempt, repeat;

-- name: doubts_page
-- By the index of doubts: the one by workspace would lead through its whole ledger.
SELECT o.id, o.run_id, o.job_id, o.recipient_id, o.recipient_address, o.channel, o.provider,
       coalesce(o.attempt_contract_id, o.contract_id),
       lower(hex(o.idempotency_key)), o.attempts, o.progress, o.reason, o.error,
       o.attempt_opened_at, o.doubted_at, o.created_at, r.campaign_id,
       o.intent_status = 'EXHAUSTED'
  FROM channel_outbox o INDEXED BY channel_outbox_doubted
  LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id IS NULL)
   AND (r.campaign_id = :campaign_id OR :campaign_id IS NULL) AND o.id > :after
 ORDER BY o.id LIMIT :most;

-- name: lock_doubts
SELECT o.id, o.run_id, o.job_id, o.channel, r.campaign_id,
       EXISTS (SELECT 1 FROM job_queue j WHERE j.id = o.job_id AND j.cancelled),
       o.intent_status = 'EXHAUSTED', o.attempt_opened_at IS NOT NULL
  FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.id IN (SELECT value ->> 0 FROM json_each(:window)) AND o.doubted_at IS NOT NULL;

-- name: resolve_sent
UPDATE channel_outbox
   SET status = item.status, intent_status = CASE WHEN intent_status = 'EXHAUSTED'
                                                THEN 'EXHAUSTED' ELSE 'ACCEPTED' END,
       attempt_closed_at = :now,
       attempt_opened_at = coalesce(attempt_opened_at, :now),
       attempt_fence = coalesce(attempt_fence, 0), progress = 'ANSWERED',
       reason = 'resolved_sent', error = NULL, doubted_at = NULL, next_attempt_at = NULL,
       updated_at = :now
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS status FROM json_each(:window)) item
 WHERE channel_outbox.id = item.id AND doubted_at IS NOT NULL;

-- name: resolve_failed
-- Whoever is exhausted has a reason: the rule that its contract would have ended it by.
UPDATE channel_outbox
   SET status = 'failed', intent_status = 'EXHAUSTED', doubted_at = NULL,
       exhausted_reason = coalesce(exhausted_reason, (
         SELECT CASE c.document ->> 'policy' WHEN 'deadline' THEN 'deadline_exceeded'
                ELSE c.document ->> 'policy' END
           FROM contract_snapshots c WHERE c.id = channel_outbox.contract_id)),
       attempt_closed_at = CASE WHEN attempt_opened_at IS NOT NULL THEN :now END,
       reason = 'resolved_failed', next_attempt_at = NULL, updated_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND doubted_at IS NOT NULL;

-- name: archive_doubted
INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at, progress,
                             outcome, reason, error)
SELECT id, attempts, repeats, attempt_fence, attempt_opened_at, :now,
       coalesce(progress, 'SENT_NO_ANSWER'), :outcome, reason, error
  FROM channel_outbox
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND doubted_at IS NOT NULL
   AND attempt_opened_at IS NOT NULL;

-- name: resolve_resubmit
-- To be called again, as the same attempt: evidence says that it never arrived, or the gateway knows
-- it if it did.
UPDATE channel_outbox
   SET repeats = repeats + CASE WHEN attempt_opened_at IS NULL THEN 0 ELSE 1 END,
       -- Whoever asks what became of it does not wait for an acceptance that comes in time.
       expires_at = CASE WHEN :maybe_received AND attempt_opened_at IS NOT NULL THEN NULL
                         ELSE expires_at END,
       doubted_at = NULL, maybe_received = :maybe_received, attempt_opened_at = NULL,
       attempt_fence = NULL, progress = NULL, reason = :reason, error = NULL,
       next_attempt_at = :now, updated_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND doubted_at IS NOT NULL;

-- name: wake_jobs
-- A verdict came: let a worker look at these parked jobs now. Who says "call it again" grants a
-- job that was given up one more attempt.
UPDATE job_queue SET run_at = :now, updated_at = :now,
       attempts = CASE WHEN :call_again AND run_id IS NOT NULL
                       THEN min(attempts, max_attempts - 1) ELSE attempts END
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND (status = 'queued' OR run_id IS NULL)
   AND (run_at IS NULL OR run_at > :now OR :call_again);

-- name: insert_lane
INSERT INTO job_queue (id, tenant_id, workspace_id, job_type, submission_target, lane, mode,
                       item_count, max_attempts, run_at, created_at, updated_at)
VALUES (:id, :tenant_id, :workspace_id, 'submission_lane', :submission_target, :lane, :mode, 0, 0,
        :now, :now, :now)
ON CONFLICT (tenant_id, workspace_id, submission_target, lane) WHERE run_id IS NULL DO NOTHING;

-- name: places
-- Contracts by their checksums, which have no lane, and lanes by their targets and numbers.
SELECT sha256, NULL, id FROM contract_snapshots
 WHERE sha256 IN (SELECT value ->> 0 FROM json_each(:window))
UNION ALL
SELECT j.submission_target, j.lane, j.id
  FROM json_each(:window) item
  JOIN job_queue j ON j.submission_target = item.value ->> 0 AND j.lane = item.value ->> 1
 WHERE j.tenant_id = :tenant_id AND j.workspace_id = :workspace_id AND j.run_id IS NULL;

-- name: insert_intents
-- Those that are new, and whether their lanes are woken already: that takes another statement here.
-- A lane that is remembered is looked for, should the database be another one by now.
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
  fallback_contract_id, recipient_id, recipient_address, payload, idempotency_key, status,
  intent_status, next_attempt_at, expires_at, topic, transactional, callback_id, created_at,
  updated_at)
SELECT value ->> 0, :tenant_id, :workspace_id, 'intent', value ->> 1, value ->> 2, value ->> 3,
       value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 11, value ->> 8,
       unhex(value ->> 9), 'queued', 'PENDING', :now, value ->> 10, value ->> 12, value ->> 13,
       value ->> 14, :now, :now
  FROM json_each(:window)
 WHERE EXISTS (SELECT 1 FROM job_queue j WHERE j.id = value ->> 1)
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING recipient_id, false;

-- name: wake_lanes
-- Something new is due. A lane that is locked keeps the wish until it is released.
UPDATE job_queue SET run_at = :now
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window)) AND (run_at IS NULL OR run_at > :now);

-- name: intents_by_key
SELECT lower(hex(o.idempotency_key)), o.recipient_id, o.submission_target, o.payload,
       o.intent_status,
       CASE o.intent_status WHEN 'ACCEPTED' THEN 'accepted' WHEN 'REJECTED' THEN o.reason END,
       o.exhausted_reason, o.attempts, o.status, o.doubted_at, o.created_at, o.updated_at, o.id,
       o.contract_id, o.topic, o.transactional, o.reason, o.error,
       CASE WHEN o.next_attempt_at IS NOT NULL THEN o.waits_for END,
       (SELECT c.url FROM callback_endpoints c WHERE c.id = o.callback_id)
  FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id AND o.origin = 'intent'
   AND o.idempotency_key IN (SELECT unhex(value ->> 0) FROM json_each(:window));

-- name: due_in_lane
-- What is due now and not too late, and what a former holder of the lane left open.
SELECT id, recipient_id, lower(hex(idempotency_key)), contract_id, payload, attempts,
       fallback_contract_id, attempt_contract_id, maybe_received,
       attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL,
       coalesce(due_at, created_at) AS created_at, origin, channel, recipient_address, kind, template,
       urgent, uncounted_calls, expires_at, repeats, topic, transactional
  FROM channel_outbox
 WHERE job_id = :job_id AND run_id IS NULL AND next_attempt_at <= :now
   AND status = 'queued' AND doubted_at IS NULL
   AND (attempt_opened_at IS NULL OR attempt_fence < :fence)
   AND (expires_at IS NULL OR expires_at > :now OR attempt_opened_at IS NOT NULL)
 ORDER BY next_attempt_at, id LIMIT :most;

-- name: doubt_items
-- Items that must not be called again: a former holder of the job left them open, as often as it
-- may be or at a gateway that does not remember; or an earlier silence is older than its memory.
UPDATE channel_outbox
   SET doubted_at = :now, next_attempt_at = NULL, updated_at = :now,
       reason = CASE WHEN attempt_opened_at IS NOT NULL AND repeats >= :repeats_max
                     THEN 'worker_lost_repeatedly' ELSE 'worker_lost' END
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window))
   AND status = 'queued' AND doubted_at IS NULL AND attempt_closed_at IS NULL
   AND ((attempt_opened_at IS NOT NULL AND attempt_fence < :fence)
        OR (attempt_opened_at IS NULL AND maybe_received));

-- name: release_lane
-- At once if it was woken meanwhile; else due with its next item, but not before `not_before`.
UPDATE job_queue SET status = 'queued', locked_by = NULL, locked_at = NULL,
       heartbeat_at = NULL, lease_expires_at = NULL, attempts = 0, updated_at = :now,
       run_at = coalesce(job_queue.run_at,
         (SELECT CASE WHEN min(o.next_attempt_at) IS NULL THEN NULL
                      ELSE max(min(o.next_attempt_at), :not_before) END
            FROM channel_outbox o
           WHERE o.job_id = job_queue.id AND o.run_id IS NULL
             AND o.next_attempt_at IS NOT NULL))
 WHERE id = :job_id AND fence = :fence AND status = 'locked'
RETURNING id;

-- name: insert_suppressions
-- Those that were not there already, or that reach further now.
INSERT INTO suppressions (tenant_id, workspace_id, channel, address, topic, reason, source,
                          evidence, includes_transactional, created_at)
SELECT :tenant_id, :workspace_id, value ->> 0, lower(value ->> 1), :topic, :reason, :source,
       :evidence, :includes_transactional, :now
  FROM json_each(:window) WHERE true
ON CONFLICT (tenant_id, workspace_id, channel, address, topic) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, evidence = excluded.evidence,
       includes_transactional = true, created_at = excluded.created_at
 WHERE excluded.includes_transactional AND NOT suppressions.includes_transactional
RETURNING address;

-- name: work_is_left
-- Whether anything is due until that moment, or with a worker now; what waits for a closed door is
-- left to whoever works when it opens.
SELECT EXISTS (SELECT 1 FROM job_queue WHERE status = 'locked' AND lease_expires_at > '')
    OR EXISTS (SELECT 1 FROM job_queue WHERE status = 'failed' AND run_at <= :until)
    OR EXISTS (SELECT 1 FROM job_queue j
                WHERE status = 'queued' AND paused = 0 AND run_at <= :until
                  AND NOT EXISTS (SELECT 1 FROM paused_targets p
                                   WHERE p.submission_target = j.submission_target)
                  AND NOT EXISTS (SELECT 1 FROM target_doors d
                                   WHERE d.submission_target = j.submission_target
                                     AND d.state <> 'open' AND d.workspace_id = ''))
    OR EXISTS (SELECT 1 FROM domain_events WHERE status = 'received' AND route_at <= :until);

-- A target's doors: locked, changed by a pure function, and saved, in one transaction.

-- name: open_jobs_by_target
SELECT submission_target, count(*)::int FROM job_queue
 WHERE outcome IS NULL AND run_id IS NOT NULL
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
 GROUP BY submission_target;

-- name: doubts_by_target
SELECT submission_target, count(*)::int FROM channel_outbox
 WHERE doubted_at IS NOT NULL AND unindexed(tenant_id) = :tenant_id
   AND unindexed(workspace_id) = :workspace_id
 GROUP BY submission_target;

-- name: insert_door
INSERT INTO target_doors (submission_target, gateway_url, workspace_id, tokens, refilled_at,
                          updated_at)
VALUES (:submission_target, :gateway_url, :workspace_id, :tokens, :now, :now)
ON CONFLICT DO NOTHING;

-- name: lock_door
SELECT tokens, refilled_at, state, closed_at, opens_at, probe_ends_at, epoch, step,
       failures, slots, slots_at, reason
  FROM target_doors
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id = :workspace_id FOR UPDATE;

-- name: doors_of_target
-- The shared one and the workspace's own; and a row without a workspace if the target is paused.
SELECT workspace_id, tokens, refilled_at, state, closed_at, opens_at, probe_ends_at, epoch, step,
       failures, slots, slots_at, reason
  FROM target_doors
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id IN ('', :workspace_id)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM paused_targets WHERE submission_target = :submission_target;

-- name: all_doors
-- The shared ones, and closed ones of workspaces.
SELECT submission_target, gateway_url, workspace_id, tokens, refilled_at, state, closed_at, opens_at, probe_ends_at,
       epoch, step, failures, slots, slots_at, reason
  FROM target_doors WHERE workspace_id = '' OR state <> 'open'
 ORDER BY submission_target, gateway_url, workspace_id LIMIT :most;

-- name: troubled_doors
SELECT submission_target, gateway_url, workspace_id, tokens, refilled_at, state, closed_at, opens_at, probe_ends_at,
       epoch, step, failures, slots, slots_at, reason
  FROM target_doors
 WHERE submission_target = :submission_target AND (state <> 'open' OR failures > 0 OR slots > 0)
 LIMIT :most;

-- name: open_contracts
-- Of jobs that have not ended, with their fallbacks: asked only about doors that nothing names.
SELECT contract_id FROM job_queue
 WHERE (outcome IS NULL OR unended > 0) AND contract_id IS NOT NULL
UNION
SELECT fallback_contract_id FROM job_queue
 WHERE (outcome IS NULL OR unended > 0) AND fallback_contract_id IS NOT NULL;

-- name: save_door
UPDATE target_doors
   SET tokens = :tokens, refilled_at = :refilled_at, state = :state, closed_at = :since,
       opens_at = :opens_at, probe_ends_at = :probe_until, epoch = :epoch, step = :step,
       failures = :failures, slots = :slots, slots_at = :slots_at, reason = :reason,
       updated_at = :now
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id = :workspace_id;

-- name: live_shares
SELECT worker_id, slots, wanted FROM door_shares
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND expires_at > :now;

-- name: forget_shares
DELETE FROM door_shares
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url;

-- name: save_share
INSERT INTO door_shares (submission_target, gateway_url, worker_id, slots, wanted, expires_at)
VALUES (:submission_target, :gateway_url, :worker_id, :slots, :wanted, :expires_at)
ON CONFLICT (submission_target, gateway_url, worker_id) DO UPDATE
   SET slots = excluded.slots, wanted = excluded.wanted, expires_at = excluded.expires_at;

-- name: paused_targets
SELECT submission_target, paused_by, paused_at FROM paused_targets ORDER BY submission_target;

-- name: pause_target
INSERT INTO paused_targets (submission_target, paused_by, paused_at)
VALUES (:submission_target, :actor, :now)
ON CONFLICT DO NOTHING
RETURNING submission_target;

-- name: resume_target
DELETE FROM paused_targets WHERE submission_target = :submission_target
RETURNING submission_target;

-- name: wake_target
-- What is scheduled for later is unchanged.
UPDATE job_queue SET run_at = :now, updated_at = :now
 WHERE submission_target = :submission_target AND status = 'queued' AND paused = false
   AND run_at > :now
   AND (run_id IS NULL
        OR (SELECT r.scheduled_for FROM campaign_runs r WHERE r.id = job_queue.run_id) <= :now);

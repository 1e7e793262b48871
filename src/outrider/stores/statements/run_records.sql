-- Reading runs: one, those of a campaign, and how one ended.

-- name: count_left_in_doubt
SELECT count(*) FROM retry_exclusions x {sqlite: CROSS} JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id = :campaign_id AND x.taken_by IS NULL AND o.doubted_at IS NOT NULL;

-- name: run_by_id_anywhere
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at, started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE id = :run_id;

-- name: runs_page
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at, started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE campaign_id = :campaign_id AND id < :before
 ORDER BY campaign_runs.id DESC LIMIT :most;

-- name: run_ending
-- What the log says about the status in the run's row.
SELECT e.type, e.payload FROM campaign_runs r
  JOIN run_events e ON e.run_id = r.id AND e.run_seq = r.status_seq
 WHERE r.id = :run_id;

-- name: run_by_id
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs
 WHERE id = :run_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: runs_of_campaign
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE campaign_id = :campaign_id ORDER BY created_at, campaign_runs.id;

-- name: lock_run
SELECT status, campaign_id::text, phase, stopped_at, plan_version, approved_at
  FROM campaign_runs WHERE id = :run_id
   FOR NO KEY UPDATE;

-- Why runs and lanes do not move: one set of statements, for however many of them.

-- name: runs_to_judge
SELECT r.id::text, r.tenant_id::text, r.workspace_id::text, r.campaign_id::text, r.phase,
       r.finished_at IS NOT NULL, r.scheduled_for, r.created_at, p.state, p.updated_at,
       p.progressed_at,
       (SELECT q.reason FROM run_requests q WHERE q.run_id = r.id AND q.status = 'waiting')
  FROM campaign_runs r
  LEFT JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
   AND p.run_id = r.id
 WHERE r.id IN window(id uuid);

-- name: jobs_that_wait
-- Of each run, by target: what is held, by whom that is silent, what is due, and since when.
SELECT j.run_id::text, j.submission_target, j.contract_id, j.mode,
       count(*) FILTER (WHERE j.status = 'locked'
                          AND (w.seen_at IS NULL OR w.seen_at >= :silent_before)),
       count(*) FILTER (WHERE j.status <> 'locked' AND j.run_at <= :now AND NOT j.paused),
       min(j.run_at) FILTER (WHERE j.status <> 'locked' AND j.run_at <= :now AND NOT j.paused) AS due_at,
       min(j.run_at) FILTER (WHERE j.status <> 'locked' AND j.run_at > :now AND NOT j.paused) AS next_at,
       count(*) FILTER (WHERE j.status <> 'locked' AND j.run_at IS NULL),
       count(*) FILTER (WHERE j.status = 'locked' AND w.seen_at < :silent_before),
       max(w.id) FILTER (WHERE j.status = 'locked' AND w.seen_at < :silent_before),
       min(w.seen_at) FILTER (WHERE j.status = 'locked' AND w.seen_at < :silent_before) AS seen_at,
       max(j.lease_expires_at) FILTER (WHERE j.status = 'locked'
                                         AND w.seen_at < :silent_before) AS ends_at,
       max(j.locked_at) AS taken_at
  FROM job_queue j LEFT JOIN workers w ON w.id = j.locked_by
 WHERE j.run_id IN window(id uuid) AND (j.outcome IS NULL OR j.unended > 0)
 GROUP BY j.run_id, j.submission_target, j.contract_id, j.mode
 ORDER BY j.run_id, j.submission_target, j.contract_id;

-- name: lanes_that_wait
SELECT j.id::text, j.submission_target, j.contract_id, j.mode,
       CASE WHEN j.status = 'locked' AND (w.seen_at IS NULL OR w.seen_at >= :silent_before)
            THEN 1 ELSE 0 END,
       CASE WHEN j.status <> 'locked' AND j.run_at <= :now THEN 1 ELSE 0 END,
       CASE WHEN j.status <> 'locked' AND j.run_at <= :now THEN j.run_at END AS due_at,
       CASE WHEN j.status <> 'locked' AND j.run_at > :now THEN j.run_at END AS next_at,
       0,
       CASE WHEN j.status = 'locked' AND w.seen_at < :silent_before THEN 1 ELSE 0 END,
       w.id, w.seen_at, j.lease_expires_at, j.locked_at
  FROM job_queue j LEFT JOIN workers w ON w.id = j.locked_by
 WHERE j.id IN window(id uuid);

-- name: closed_doors
SELECT submission_target, gateway_url, workspace_id, state, closed_at, opens_at, failures, reason
  FROM target_doors WHERE state <> 'open'
 ORDER BY submission_target, gateway_url, workspace_id LIMIT :most;

-- name: open_engine_alert
SELECT min(raised_at) AS raised_at FROM alerts
 WHERE code = :code AND resolved_at IS NULL
HAVING count(*) > 0;

-- name: doubts_of_runs
-- What is left to people, and since when; and how many doubts evidence will settle: since when, when the
-- next of them is looked into, and by what.
SELECT o.run_id::text, count(*) FILTER (WHERE c.settles = 'person'),
       min(c.since) FILTER (WHERE c.settles = 'person') AS since_at,
       count(*) FILTER (WHERE c.settles IS NULL OR c.settles <> 'person'),
       min(c.doubted_at) FILTER (WHERE c.settles IS NULL OR c.settles <> 'person') AS doubted_at,
       min(c.next_check_at) FILTER (WHERE c.settles IS NULL OR c.settles <> 'person')
         AS next_check_at,
       count(*) FILTER (WHERE c.settles = 'receipt'), count(*) FILTER (WHERE c.settles = 'key'),
       count(*) FILTER (WHERE c.settles = 'look_up')
  FROM channel_outbox o JOIN doubt_checks c ON c.outbox_id = o.id
 WHERE o.doubted_at IS NOT NULL AND o.run_id IN window(id uuid)
 GROUP BY o.run_id;

-- name: doubts_of_items
SELECT outbox_id::text, settles, next_check_at FROM doubt_checks WHERE outbox_id IN window(id uuid);

-- name: open_runs
-- All that have not ended, those that wait for their time or for approval included.
SELECT r.id::text FROM campaign_runs r
 WHERE r.finished_at IS NULL AND r.id > :after
 ORDER BY r.id LIMIT :most;

-- name: unfinished_runs
-- Those that were let go, after the one that was judged last.
SELECT r.id::text FROM campaign_runs r
 WHERE r.finished_at IS NULL AND r.id > :after AND r.scheduled_for <= :now
   AND NOT EXISTS (SELECT 1 FROM run_requests q WHERE q.run_id = r.id AND q.status = 'waiting')
 ORDER BY r.id LIMIT :most;

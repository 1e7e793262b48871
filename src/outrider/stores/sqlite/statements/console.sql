-- What the console's pages ask for: each page in a few statements, however many lines it has.
-- A `+` keeps a column from choosing the index: what waits for somebody has an index of its own,
-- and the one by workspace would lead through everything the workspace ever had.

-- name: last_sequences
SELECT id, last_sequence FROM campaigns
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: campaigns_floor
-- Where a look through so many campaigns ends, if there are more.
SELECT c.id FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id AND c.id < :before
 ORDER BY c.id DESC LIMIT 1 OFFSET :scanned - 1;

-- name: campaigns_overview
-- The state is the one of domain/campaign_states.py.
SELECT c.id, c.name, c.audience_size, c.last_sequence, c.created_at
  FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id
   AND c.id < :before AND c.id >= :floor
   AND (:words IS NULL OR c.id = :words OR instr(lowered(c.name), :words) > 0)
   AND (:state IS NULL OR :state = (
     SELECT CASE WHEN sum(p.state = 'paused') > 0 THEN 'paused'
                 WHEN sum(p.state = 'in_progress') > 0 THEN 'in_progress'
                 WHEN sum(p.state = 'failed') > 0 THEN 'failed'
                 WHEN sum(p.state = 'completed') = count(*) THEN 'completed'
                 WHEN sum(p.state = 'not_started') = count(*) THEN 'not_started'
                 ELSE 'ready' END
       FROM campaign_phases p WHERE p.campaign_id = c.id))
 ORDER BY c.id DESC LIMIT :most;

-- name: phases_of_campaigns
-- With what was last told of a phase in progress, and what its run came to in the end.
SELECT p.campaign_id, p.phase, p.state, p.run_id, p.started_at, p.progress, r.status, r.intended,
       e.payload, p.reason,
       CASE WHEN r.scheduled_for > r.created_at THEN r.scheduled_for END AS scheduled_for,
       r.retry_of
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
  LEFT JOIN run_events e
         ON e.run_id = r.id AND e.run_seq = r.status_seq AND r.finished_at IS NOT NULL
 WHERE p.campaign_id IN (SELECT value ->> 0 FROM json_each(:window))
 ORDER BY p.campaign_id, p.ordinal;

-- name: sum_jobs_of_runs
-- What settled jobs came to, and how many items the others have.
SELECT run_id, coalesce(sum(item_count) FILTER (WHERE outcome IS NULL OR unended > 0), 0),
       coalesce(sum(sent) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0),
       coalesce(sum(failed) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0),
       coalesce(sum(skipped) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)
  FROM job_queue
 WHERE run_id IN (SELECT value ->> 0 FROM json_each(:window)) GROUP BY run_id;

-- name: count_unfinished_rows_of_runs
-- The rows of jobs that have not settled, as `count_unfinished_rows` counts them for one run.
SELECT j.run_id, count(*),
       count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL),
       count(*) FILTER (WHERE o.doubted_at IS NOT NULL),
       count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE o.status = 'failed'),
       count(*) FILTER (WHERE o.status = 'skipped')
  FROM json_each(:window) item
 CROSS JOIN job_queue j ON j.run_id = item.value ->> 0 AND (j.outcome IS NULL OR j.unended > 0)
 CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 GROUP BY j.run_id;

-- name: run_throughput
-- When jobs settled, and what they came to.
SELECT min(max(CAST((unixepoch(updated_at, 'subsec') - unixepoch(:begin, 'subsec'))
                    / :bucket_seconds AS integer), 0), :last_bucket),
       sum(sent), sum(failed), sum(skipped)
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL
 GROUP BY 1 ORDER BY 1;

-- name: items_of_run_filtered
-- Settled jobs carry their counts, and every job its range: those without such an item, or without
-- this recipient, are passed over.
SELECT o.id, o.recipient_id, o.recipient_address, o.channel, o.provider, o.submission_target,
       o.status, o.intent_status, o.exhausted_reason, o.reason, o.error, o.attempts,
       o.attempt_opened_at, o.attempt_closed_at, o.progress, o.maybe_received,
       o.provider_message_id, o.next_attempt_at, o.doubted_at, o.created_at, o.updated_at,
       lower(hex(o.idempotency_key)), o.run_id, o.job_id, o.subject, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND o.job_id IN (
     SELECT j.id FROM job_queue j
      WHERE j.run_id = :run_id AND j.id >= :after_job
        AND CASE WHEN :status IS NULL OR j.outcome IS NULL OR j.unended > 0 THEN 1
                 WHEN :status = 'queued' THEN 0
                 WHEN :status = 'failed' THEN j.failed
                 WHEN :status = 'skipped' THEN j.skipped ELSE j.sent END > 0
        AND (:recipient_id IS NULL OR (
          SELECT m.position FROM audience_members m
           WHERE m.campaign_id = (SELECT r.campaign_id FROM campaign_runs r WHERE r.id = :run_id)
             AND m.recipient_id = :recipient_id) BETWEEN j.first_position AND j.last_position))
   AND (o.job_id, o.id) > (:after_job, :after_id)
   AND (o.status = :status OR :status IS NULL)
   AND (o.recipient_id = :recipient_id OR :recipient_id IS NULL)
   AND +o.tenant_id = :tenant_id AND +o.workspace_id = :workspace_id
 ORDER BY o.job_id, o.id LIMIT :most;

-- name: count_doubts
SELECT count(*) FROM (
  SELECT 1 FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
   WHERE +o.tenant_id = :tenant_id AND +o.workspace_id = :workspace_id
     AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id IS NULL)
     AND (r.campaign_id = :campaign_id OR :campaign_id IS NULL)
   LIMIT :most);

-- name: doubts_among
SELECT o.id FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.id IN (SELECT value ->> 0 FROM json_each(:window)) AND o.doubted_at IS NOT NULL
 ORDER BY o.id;

-- name: count_trouble
-- What waits for somebody in a workspace: doubts, alerts, dead letters, phases
-- bypassed, and events that could not be routed.
SELECT (SELECT count(*) FROM (
          SELECT 1 FROM channel_outbox o
           WHERE o.doubted_at IS NOT NULL AND +o.tenant_id = :tenant_id
             AND +o.workspace_id = :workspace_id LIMIT :most)),
       (SELECT count(*) FROM (
          SELECT 1 FROM alerts
           WHERE resolved_at IS NULL AND +tenant_id = :tenant_id AND +workspace_id = :workspace_id
           LIMIT :most)),
       (SELECT count(*) FROM (
          SELECT 1 FROM event_bus_dead_letters
           WHERE redriven_at IS NULL AND +tenant_id = :tenant_id AND +workspace_id = :workspace_id
           LIMIT :most)),
       (SELECT count(*) FROM (
          SELECT 1 FROM campaign_audit_log
           WHERE event = 'phase.transition_bypassed' AND +tenant_id = :tenant_id
             AND +workspace_id = :workspace_id LIMIT :most)),
       (SELECT count(*) FROM (
          SELECT 1 FROM domain_events
           WHERE status = 'failed' AND tenant_id = :tenant_id AND workspace_id = :workspace_id
           LIMIT :most));

-- name: bypasses_page
SELECT a.id, a.created_at, a.campaign_id, a.detail FROM campaign_audit_log a
 WHERE a.event = 'phase.transition_bypassed' AND +a.tenant_id = :tenant_id
   AND +a.workspace_id = :workspace_id AND a.id < :before
 ORDER BY a.id DESC LIMIT :most;

-- name: suppressed_among
-- Those of the window that would be held back, by their places in it.
SELECT item.value ->> 0 FROM json_each(:window) item
 WHERE EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                  AND s.channel = item.value ->> 1 AND s.address = lower(item.value ->> 2)
                  AND (s.topic = '' OR s.topic = item.value ->> 3)
                  AND (s.includes_transactional OR NOT item.value ->> 4));

-- name: open_jobs_by_target
SELECT submission_target, count(*) FROM job_queue
 WHERE outcome IS NULL AND run_id IS NOT NULL
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
 GROUP BY submission_target;

-- name: doubts_by_target
SELECT submission_target, count(*) FROM channel_outbox
 WHERE doubted_at IS NOT NULL AND +tenant_id = :tenant_id AND +workspace_id = :workspace_id
 GROUP BY submission_target;

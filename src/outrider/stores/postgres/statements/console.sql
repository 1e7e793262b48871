-- What the console's pages ask for: each page in a few statements, however many lines it has.
-- A `::text` keeps a column from choosing the index: what waits for somebody has an index of its
-- own, and the one by workspace would lead through everything the workspace ever had.

-- name: last_sequences
SELECT id::text, last_sequence FROM campaigns
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: campaigns_floor
-- Where a look through so many campaigns ends, if there are more.
SELECT c.id::text FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id AND c.id < :before
 ORDER BY c.id DESC LIMIT 1 OFFSET :scanned::int - 1;

-- name: campaigns_overview
-- The state is the one of domain/campaign_states.py.
SELECT c.id::text, c.name, c.audience_size, c.last_sequence, c.created_at
  FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id
   AND c.id < :before AND c.id >= :floor
   AND (:words::text IS NULL OR c.id::text = :words OR strpos(lower(c.name), :words) > 0)
   AND (:state::text IS NULL OR :state = (
     SELECT CASE WHEN bool_or(p.state = 'paused') THEN 'paused'
                 WHEN bool_or(p.state = 'in_progress') THEN 'in_progress'
                 WHEN bool_or(p.state = 'failed') THEN 'failed'
                 WHEN bool_and(p.state = 'completed') THEN 'completed'
                 WHEN bool_and(p.state = 'not_started') THEN 'not_started'
                 ELSE 'ready' END
       FROM campaign_phases p WHERE p.campaign_id = c.id))
 ORDER BY c.id DESC LIMIT :most;

-- name: phases_of_campaigns
-- With what was last told of a phase in progress, and what its run came to in the end.
SELECT p.campaign_id::text, p.phase, p.state, p.run_id::text, p.started_at, p.progress::text,
       r.status, r.intended, e.payload::text, p.reason,
       CASE WHEN r.scheduled_for > r.created_at THEN r.scheduled_for END AS scheduled_for,
       r.retry_of::text
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
  LEFT JOIN run_events e
         ON e.run_id = r.id AND e.run_seq = r.status_seq AND r.finished_at IS NOT NULL
 WHERE p.campaign_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
 ORDER BY p.campaign_id, p.ordinal;

-- name: sum_jobs_of_runs
-- What settled jobs came to, and how many items the others have.
SELECT run_id::text,
       coalesce(sum(item_count) FILTER (WHERE outcome IS NULL OR unended > 0), 0)::int,
       coalesce(sum(sent) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(failed) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(skipped) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int
  FROM job_queue
 WHERE run_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
 GROUP BY run_id;

-- name: count_unfinished_rows_of_runs
-- The rows of jobs that have not settled, as `count_unfinished_rows` counts them for one run.
SELECT j.run_id::text, sum(c.reserved)::int, sum(c.queued)::int, sum(c.doubted)::int,
       sum(c.sent)::int, sum(c.failed)::int, sum(c.skipped)::int
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS reserved,
          count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL) AS queued,
          count(*) FILTER (WHERE o.doubted_at IS NOT NULL) AS doubted,
          count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')) AS sent,
          count(*) FILTER (WHERE o.status = 'failed') AS failed,
          count(*) FILTER (WHERE o.status = 'skipped') AS skipped
     FROM channel_outbox o WHERE o.run_id = j.run_id AND o.job_id = j.id) c
 WHERE j.run_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND (j.outcome IS NULL OR j.unended > 0)
 GROUP BY j.run_id;

-- name: run_throughput
-- When jobs settled, and what they came to.
SELECT least(greatest(floor(extract(epoch FROM updated_at - :begin::timestamptz)
                            / :bucket_seconds::float8)::int, 0), :last_bucket::int),
       sum(sent)::int, sum(failed)::int, sum(skipped)::int
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL
 GROUP BY 1 ORDER BY 1;

-- name: items_of_run_filtered
-- Settled jobs carry their counts, and every job its range: those without such an item, or without
-- this recipient, are passed over.
SELECT o.id::text, o.recipient_id, o.recipient_address, o.channel, o.provider,
       o.submission_target, o.status, o.intent_status, o.exhausted_reason, o.reason, o.error,
       o.attempts, o.attempt_opened_at, o.attempt_closed_at, o.progress, o.maybe_received,
       o.provider_message_id, o.next_attempt_at, o.doubted_at, o.created_at, o.updated_at,
       encode(o.idempotency_key, 'hex'), o.run_id::text, o.job_id::text, o.subject,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL::int
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT * FROM channel_outbox r
    WHERE r.run_id = j.run_id AND r.job_id = j.id
      AND (r.job_id, r.id) > (:after_job, :after_id)
      AND (r.status = :status OR :status::text IS NULL)
      AND (r.recipient_id = :recipient_id OR :recipient_id::text IS NULL)
      AND r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id
    ORDER BY r.id LIMIT :most) o
 WHERE j.run_id = :run_id AND j.id >= :after_job
   AND CASE WHEN :status IS NULL OR j.outcome IS NULL OR j.unended > 0 THEN 1
            WHEN :status = 'queued' THEN 0
            WHEN :status = 'failed' THEN j.failed
            WHEN :status = 'skipped' THEN j.skipped ELSE j.sent END > 0
   AND (:recipient_id IS NULL OR (
     SELECT m.position FROM audience_members m
      WHERE m.campaign_id = (SELECT r.campaign_id FROM campaign_runs r WHERE r.id = :run_id)
        AND m.recipient_id = :recipient_id) BETWEEN j.first_position AND j.last_position)
 ORDER BY j.id, o.id LIMIT :most;

-- name: count_doubts
SELECT count(*) FROM (
  SELECT 1 FROM channel_outbox o LEFT JOIN campaign_runs r ON r.id = o.run_id
   WHERE o.tenant_id::text = :tenant_id AND o.workspace_id::text = :workspace_id
     AND o.doubted_at IS NOT NULL AND (o.run_id = :run_id OR :run_id::uuid IS NULL)
     AND (r.campaign_id = :campaign_id OR :campaign_id::uuid IS NULL)
   LIMIT :most) counted;

-- name: doubts_among
SELECT o.id::text FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND o.doubted_at IS NOT NULL
 ORDER BY o.id;

-- name: count_trouble
-- What waits for somebody in a workspace: doubts, alerts, dead letters, phases
-- bypassed, and events that could not be routed.
SELECT (SELECT count(*) FROM (
          SELECT 1 FROM channel_outbox o
           WHERE o.doubted_at IS NOT NULL AND o.tenant_id::text = :tenant_id
             AND o.workspace_id::text = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM alerts
           WHERE resolved_at IS NULL AND tenant_id::text = :tenant_id
             AND workspace_id::text = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM event_bus_dead_letters
           WHERE redriven_at IS NULL AND tenant_id::text = :tenant_id
             AND workspace_id::text = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM campaign_audit_log
           WHERE event = 'phase.transition_bypassed' AND tenant_id::text = :tenant_id
             AND workspace_id::text = :workspace_id LIMIT :most) counted)::int,
       (SELECT count(*) FROM (
          SELECT 1 FROM domain_events
           WHERE status = 'failed' AND tenant_id = :tenant_id::uuid
             AND workspace_id = :workspace_id::uuid
           LIMIT :most) counted)::int;

-- name: bypasses_page
SELECT a.id::text, a.created_at, a.campaign_id::text, a.detail::text FROM campaign_audit_log a
 WHERE a.event = 'phase.transition_bypassed' AND a.tenant_id::text = :tenant_id
   AND a.workspace_id::text = :workspace_id AND a.id < :before
 ORDER BY a.id DESC LIMIT :most;

-- name: suppressed_among
-- Those of the window that would be held back, by their places in it.
SELECT item.place
  FROM json_to_recordset(:window)
    AS item (place int, channel text, address text, topic text, transactional boolean)
 WHERE EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                  AND s.channel = item.channel AND s.address = lower(item.address)
                  AND (s.topic = '' OR s.topic = item.topic)
                  AND (s.includes_transactional OR NOT item.transactional));

-- name: open_jobs_by_target
SELECT submission_target, count(*)::int FROM job_queue
 WHERE outcome IS NULL AND run_id IS NOT NULL
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
 GROUP BY submission_target;

-- name: doubts_by_target
SELECT submission_target, count(*)::int FROM channel_outbox
 WHERE doubted_at IS NOT NULL AND tenant_id::text = :tenant_id
   AND workspace_id::text = :workspace_id
 GROUP BY submission_target;

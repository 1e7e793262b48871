-- Reading: runs with their accounting, items with their attempts, and pages of the ledger.

-- name: sum_jobs_of_runs
-- What settled jobs came to, and how many items the others have.
SELECT run_id::text,
       coalesce(sum(item_count) FILTER (WHERE outcome IS NULL OR unended > 0), 0)::int,
       coalesce(sum(sent) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(failed) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(skipped) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int
  FROM job_queue
 WHERE run_id IN window(id uuid)
 GROUP BY run_id;

-- name: count_unfinished_rows_of_runs
-- The rows of jobs that have not settled, as `count_unfinished_rows` counts them for one run.
-- postgres:
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
 WHERE j.run_id IN window(id uuid)
   AND (j.outcome IS NULL OR j.unended > 0)
 GROUP BY j.run_id;
-- sqlite:
SELECT j.run_id, count(*),
       count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL),
       count(*) FILTER (WHERE o.doubted_at IS NOT NULL),
       count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE o.status = 'failed'),
       count(*) FILTER (WHERE o.status = 'skipped')
  FROM window(id uuid) AS item
 CROSS JOIN job_queue j ON j.run_id = item.id AND (j.outcome IS NULL OR j.unended > 0)
 CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 GROUP BY j.run_id;

-- name: run_throughput
-- When jobs settled, and what they came to.
SELECT least(greatest(
         {postgres: floor(extract(epoch FROM updated_at - :begin::timestamptz)
                          / :bucket_seconds::float8)::int}
         {sqlite: CAST((unixepoch(updated_at, 'subsec') - unixepoch(:begin, 'subsec'))
                       / :bucket_seconds AS integer)},
         0), :last_bucket::int),
       sum(sent)::int, sum(failed)::int, sum(skipped)::int
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL
 GROUP BY 1 ORDER BY 1;

-- name: items_of_run_filtered
-- Settled jobs carry their counts, and every job its range: those without such an item, or without
-- this recipient, are passed over.
-- postgres:
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
-- sqlite:
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

-- name: jobs_page
-- Jobs carry their counts; of one that ended with items in doubt, the rows are counted.
SELECT j.id::text, j.job_type, j.submission_target, j.status, j.outcome, j.attempts, j.item_count,
       CASE WHEN j.unended = 0 THEN j.sent ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status IN ('sent', 'called', 'posted')) END,
       CASE WHEN j.unended = 0 THEN j.failed ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'failed') END,
       CASE WHEN j.unended = 0 THEN j.skipped ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'skipped') END,
       j.paused, j.cancelled, j.last_error, j.run_at, j.result, j.updated_at
  FROM job_queue j WHERE j.run_id = :run_id AND j.id > :after ORDER BY j.id LIMIT :most;

-- name: audit_of_workspace
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id > :after
 ORDER BY campaign_audit_log.id LIMIT :most;

-- name: late_acceptances_of
SELECT attempt, answered_at, provider_message_id, recorded_at
  FROM late_acceptances WHERE outbox_id = :outbox_id
 ORDER BY attempt, fence;

-- name: run_ending
-- What the log says of the status that the run's row has.
SELECT e.type, e.payload FROM campaign_runs r
  JOIN run_events e ON e.run_id = r.id AND e.run_seq = r.status_seq
 WHERE r.id = :run_id;

-- name: audit_of_run
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE run_id = :run_id AND id > :after
   AND tenant_id IS NOT DISTINCT FROM :tenant_id
   AND workspace_id IS NOT DISTINCT FROM :workspace_id
 ORDER BY campaign_audit_log.id LIMIT :most;

-- name: audit_of_campaign
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE campaign_id = :campaign_id AND id > :after
   AND tenant_id IS NOT DISTINCT FROM :tenant_id
   AND workspace_id IS NOT DISTINCT FROM :workspace_id
 ORDER BY campaign_audit_log.id LIMIT :most;

-- name: contract_by_id
SELECT document FROM contract_snapshots WHERE id = :contract_id;

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

-- name: count_finished_jobs
-- Those that ended with every item; what ended with some in doubt is counted by its rows.
SELECT coalesce(sum(item_count), 0), coalesce(sum(sent), 0), coalesce(sum(failed), 0),
       coalesce(sum(skipped), 0)
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL AND unended = 0;

-- name: count_unfinished_jobs
SELECT coalesce(sum(item_count), 0) FROM job_queue
 WHERE run_id = :run_id AND (outcome IS NULL OR unended > 0);

-- name: count_unfinished_rows
-- The rows of jobs that have items without an ending; other jobs carry their counts. LATERAL in
-- Postgres and CROSS JOIN in SQLite keep the order, so that no plan can read the rows of the whole
-- run.
-- postgres:
SELECT coalesce(sum(c.reserved), 0)::int, coalesce(sum(c.queued), 0)::int,
       coalesce(sum(c.doubted), 0)::int, coalesce(sum(c.sent), 0)::int,
       coalesce(sum(c.failed), 0)::int, coalesce(sum(c.skipped), 0)::int
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS reserved,
          count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL) AS queued,
          count(*) FILTER (WHERE o.doubted_at IS NOT NULL) AS doubted,
          count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')) AS sent,
          count(*) FILTER (WHERE o.status = 'failed') AS failed,
          count(*) FILTER (WHERE o.status = 'skipped') AS skipped
     FROM channel_outbox o WHERE o.run_id = j.run_id AND o.job_id = j.id) c
 WHERE j.run_id = :run_id AND (j.outcome IS NULL OR j.unended > 0);
-- sqlite:
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

-- name: ledger_page
-- All rows of a run in the order of its index, so that each page costs only itself.
SELECT o.job_id::text, o.id::text, encode(o.idempotency_key, 'hex'), o.status, o.submission_target,
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
-- postgres:
SELECT EXISTS (
  SELECT 1 FROM pg_index i
   WHERE i.indrelid = 'channel_outbox'::regclass AND i.indisunique AND i.indisvalid
     AND i.indpred IS NULL
     AND (SELECT array_agg(a.attname::text ORDER BY k.ordinality)
            FROM unnest(i.indkey) WITH ORDINALITY k (number, ordinality)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number)
         = ARRAY['tenant_id', 'workspace_id', 'idempotency_key']);
-- sqlite:
SELECT EXISTS (
  SELECT 1 FROM pragma_index_list('channel_outbox') i
   WHERE i."unique" = 1 AND i.partial = 0
     AND (SELECT group_concat(name)
            FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
         = 'tenant_id,workspace_id,idempotency_key');

-- name: items_by_id
SELECT id::text, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, attempt_opened_at,
       attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, encode(idempotency_key, 'hex'), run_id::text,
       job_id::text, subject, waits_for, template, domain_event_id::text, step_id::text,
       (SELECT e.event_id FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT e.trigger_name FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT s.step_order FROM workflow_steps s WHERE s.id = channel_outbox.step_id),
       topic, transactional
  FROM channel_outbox
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN window(id uuid)
 ORDER BY channel_outbox.id;

-- name: items_of_run
SELECT id::text, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, attempt_opened_at,
       attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, encode(idempotency_key, 'hex'), run_id::text,
       job_id::text, subject, NULL, NULL, NULL, NULL, NULL, NULL, NULL::int
  FROM channel_outbox
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND run_id = :run_id AND (job_id, id) > (:after_job, :after_id)
 ORDER BY channel_outbox.job_id, channel_outbox.id LIMIT :most;

-- name: attempts_of_items
SELECT outbox_id::text, attempt, opened_at, closed_at, progress, outcome, reason, error,
       provider_message_id, repeat
  FROM submission_attempts
 WHERE outbox_id IN window(id uuid)
 ORDER BY submission_attempts.outbox_id, attempt, repeat;

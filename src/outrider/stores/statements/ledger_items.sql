-- Reading items of the ledger, with their attempts.

-- name: items_of_run_filtered
-- Settled jobs carry their counts, and every job its range: jobs without such an item, or without
-- this recipient, are skipped.
-- postgres:
SELECT o.id::text, o.recipient_id, o.recipient_address, o.channel, o.provider,
       o.submission_target, o.status, o.intent_status, o.exhausted_reason, o.reason, o.error,
       o.attempts, o.repeats, o.attempt_opened_at, o.attempt_closed_at, o.progress, o.maybe_received,
       o.provider_message_id, o.next_attempt_at, o.doubted_at, o.created_at, o.updated_at,
       encode(o.idempotency_key, 'hex'), o.run_id::text, o.job_id::text, o.subject,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL::int,
       (SELECT a.variant FROM assets a WHERE a.id = o.asset_id)
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
       o.repeats, o.attempt_opened_at, o.attempt_closed_at, o.progress, o.maybe_received,
       o.provider_message_id, o.next_attempt_at, o.doubted_at, o.created_at, o.updated_at,
       lower(hex(o.idempotency_key)), o.run_id, o.job_id, o.subject, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, (SELECT a.variant FROM assets a WHERE a.id = o.asset_id)
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

-- name: late_acceptances_of
SELECT attempt, answered_at, provider_message_id, recorded_at
  FROM late_acceptances WHERE outbox_id = :outbox_id
 ORDER BY attempt, fence;

-- name: items_by_id
SELECT id::text, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, repeats,
       attempt_opened_at, attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, encode(idempotency_key, 'hex'), run_id::text,
       job_id::text, subject, waits_for, template, domain_event_id::text, step_id::text,
       (SELECT e.event_id FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT e.trigger_name FROM domain_events e WHERE e.id = channel_outbox.domain_event_id),
       (SELECT s.step_order FROM workflow_steps s WHERE s.id = channel_outbox.step_id),
       (SELECT a.variant FROM assets a WHERE a.id = channel_outbox.asset_id),
       topic, transactional,
       (SELECT c.submission_target FROM contract_snapshots c
         WHERE c.id = channel_outbox.attempt_contract_id) AS called_target
  FROM channel_outbox
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN window(id uuid)
 ORDER BY channel_outbox.id;

-- name: items_of_run
SELECT id::text, recipient_id, recipient_address, channel, provider, submission_target, status,
       intent_status, exhausted_reason, reason, error, attempts, repeats,
       attempt_opened_at, attempt_closed_at, progress, maybe_received, provider_message_id, next_attempt_at,
       doubted_at, created_at, updated_at, encode(idempotency_key, 'hex'), run_id::text,
       job_id::text, subject, NULL, NULL, NULL, NULL, NULL, NULL, NULL::int,
       (SELECT a.variant FROM assets a WHERE a.id = channel_outbox.asset_id)
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

-- name: last_repeats
-- Of items between two attempts: how often the call of the last one was repeated.
SELECT o.id::text, max(h.repeat)
  FROM channel_outbox o JOIN attempt_history h ON h.outbox_id = o.id AND h.attempt = o.attempts
 WHERE o.id IN window(id uuid)
 GROUP BY o.id;

-- Rows as they are sealed: the ledger of a run in pages, with attempts and receipts of each page.

-- name: ledger_to_seal
-- Every column, in index order, so that each page costs only itself. What may tell who somebody is,
-- or what was said to them, comes last.
SELECT o.id::text, o.job_id::text, o.tenant_id::text, o.workspace_id::text, o.origin, o.channel,
       o.provider, o.submission_target, o.contract_id, o.fallback_contract_id,
       o.attempt_contract_id, o.asset_id::text, o.asset_version,
       encode(o.idempotency_key, 'hex') AS reference, o.status, o.skipped, o.intent_status,
       o.exhausted_reason, o.attempts, o.attempt_fence, o.attempt_opened_at, o.attempt_closed_at,
       o.progress, o.maybe_received, o.provider_message_id, o.next_attempt_at, o.doubted_at,
       o.uncounted_calls, o.repeats, o.repeat_target, o.repeat_memory, o.step_attempt,
       o.attempts_before, o.topic, o.transactional, o.urgent, o.kind, o.waits_for, o.due_at,
       o.expires_at, o.domain_event_id::text, o.step_id::text, o.callback_id::text,
       o.answers_receipt::text, o.time_zone, o.created_at, o.updated_at, o.recipient_id, o.recipient_address,
       o.subject, o.payload::text, o.template, o.reason, o.error
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND (o.job_id, o.id) > (:after_job, :after_id)
 ORDER BY o.job_id, o.id LIMIT :most;

-- name: attempts_to_seal
SELECT h.outbox_id::text, h.attempt, h.repeat, h.fence, h.opened_at, h.closed_at, h.progress,
       h.outcome, h.reason, h.error
  FROM attempt_history h WHERE h.outbox_id IN window(id uuid)
 ORDER BY h.outbox_id, h.attempt, h.repeat;

-- name: receipts_to_seal
WITH matched AS MATERIALIZED (
  SELECT m.outbox_id, m.id, m.matched_by, m.matched_at
    FROM item_receipts m WHERE m.outbox_id IN window(id uuid)
)
SELECT f.outbox_id::text, f.id::text, f.matched_by, f.matched_at, r.tenant_id::text,
       r.workspace_id::text, r.submission_target, r.receipt_id, r.event, r.reference,
       r.provider_message_id, r.permanent, r.keyword, r.occurred_at, r.received_at, r.reason,
       r.sender, r.text
  FROM matched f
  {postgres: LEFT JOIN LATERAL (SELECT * FROM receipts e
                     WHERE e.workspace_id = :workspace_id AND e.id = f.id LIMIT 1) r ON true}
  {sqlite: LEFT JOIN receipts r ON r.workspace_id = :workspace_id AND r.id = f.id}
 ORDER BY f.outbox_id, f.id;

-- name: items_to_seal
SELECT o.id::text, o.job_id::text, o.tenant_id::text, o.workspace_id::text, o.origin, o.channel,
       o.provider, o.submission_target, o.contract_id, o.fallback_contract_id,
       o.attempt_contract_id, o.asset_id::text, o.asset_version,
       encode(o.idempotency_key, 'hex') AS reference, o.status, o.skipped, o.intent_status,
       o.exhausted_reason, o.attempts, o.attempt_fence, o.attempt_opened_at, o.attempt_closed_at,
       o.progress, o.maybe_received, o.provider_message_id, o.next_attempt_at, o.doubted_at,
       o.uncounted_calls, o.repeats, o.repeat_target, o.repeat_memory, o.step_attempt,
       o.attempts_before, o.topic, o.transactional, o.urgent, o.kind, o.waits_for, o.due_at,
       o.expires_at, o.domain_event_id::text, o.step_id::text, o.callback_id::text,
       o.answers_receipt::text, o.time_zone, o.created_at, o.updated_at, o.recipient_id, o.recipient_address,
       o.subject, o.payload::text, o.template, o.reason, o.error
  FROM channel_outbox o
 WHERE o.id IN window(id uuid)
 ORDER BY o.job_id, o.id;

-- name: erased_among
-- Those that were sealed before they were erased.
SELECT e.id::text, e.hashes FROM erased_rows e WHERE e.id IN window(id uuid) AND e.hashes IS NOT NULL;

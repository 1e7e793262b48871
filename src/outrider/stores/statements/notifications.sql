-- Messages that follow from domain events: they enter the ledger in windows, into their lanes.

-- name: insert_notifications
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, job_id, channel, provider, submission_target, contract_id,
  fallback_contract_id, recipient_id, recipient_address, subject, payload, idempotency_key, kind,
  template, urgent, due_at, waits_for, domain_event_id, step_id, status, skipped, intent_status,
  reason, error, next_attempt_at, expires_at, topic, transactional, maybe_received, created_at,
  updated_at)
SELECT id, :tenant_id, :workspace_id, 'workflow', job_id, channel, provider, submission_target,
       contract_id, fallback_contract_id, recipient_id, address, subject, payload::json,
       decode(key, 'hex'), kind, template, urgent, due_at, waits_for, domain_event_id, step_id,
       status, status = 'skipped', CASE status WHEN 'queued' THEN 'PENDING' END, reason, error,
       CASE status WHEN 'queued' THEN due_at END, expires_at, topic, transactional,
       status = 'queued' AND coalesce(due_at <= (
         SELECT p.distrusted_until FROM database_places p WHERE p.id = 1), false), :now, :now
  FROM window(id uuid, job_id uuid, channel text, provider text, submission_target text,
              contract_id int, fallback_contract_id int, recipient_id text, address text,
              subject text, payload text, key text, kind text, template text, urgent boolean,
              due_at timestamptz, waits_for text, domain_event_id uuid, step_id uuid, status text,
              reason text, error text, expires_at timestamptz, topic text,
              transactional boolean) AS item
 WHERE {sqlite: NOT EXISTS (SELECT 1 FROM retired_keys k
                     WHERE k.workspace_id = :workspace_id AND k.key = decode(item.key, 'hex'))}
       {postgres: decode(item.key, 'hex') <> ALL (ARRAY(
         SELECT k.key FROM retired_keys k
          WHERE k.workspace_id = :workspace_id AND k.key = ANY (ARRAY(
                  SELECT decode(key, 'hex') FROM window(key text) AS known))))}
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING id::text;

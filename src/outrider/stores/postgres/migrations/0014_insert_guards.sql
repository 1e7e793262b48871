-- A record's `run_at` never goes back: while it waits it is the next attempt, then the latest one,
-- and for what ended without a call the moment of its end.
CREATE OR REPLACE VIEW notification_outbox AS
  SELECT id, tenant_id, workspace_id, kind, template, payload, recipient_address AS recipient,
         CASE WHEN status IN ('sent', 'called', 'posted') THEN 'succeeded'
              WHEN status IN ('failed', 'skipped') THEN 'failed'
              WHEN doubted_at IS NOT NULL OR attempt_opened_at IS NOT NULL THEN 'processing'
              ELSE 'pending' END AS status,
         attempts,
         coalesce(next_attempt_at, attempt_opened_at,
                  CASE WHEN status <> 'queued'
                       THEN greatest(coalesce(due_at, created_at), updated_at) END,
                  due_at, created_at) AS run_at,
         CASE WHEN status NOT IN ('sent', 'called', 'posted')
              THEN reason || CASE WHEN error IS NULL THEN '' ELSE ': ' || error END END AS last_error,
         waits_for, domain_event_id, step_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'workflow';

-- SQLite has insert guards here, because of its REPLACE; Postgres has no statement that takes a row
-- away without its DELETE trigger. A row's key is kept on both.
CREATE TRIGGER channel_outbox_keeps_its_key
  BEFORE UPDATE OF id, tenant_id, workspace_id, idempotency_key ON channel_outbox
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a ledger row keeps its key');

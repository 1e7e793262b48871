-- A record's `run_at` never goes back: while it waits it is the next attempt, then the latest one,
-- and for what ended without a call the moment of its end.
DROP VIEW notification_outbox;
CREATE VIEW notification_outbox AS
  SELECT id, tenant_id, workspace_id, kind, template, payload, recipient_address AS recipient,
         CASE WHEN status IN ('sent', 'called', 'posted') THEN 'succeeded'
              WHEN status IN ('failed', 'skipped') THEN 'failed'
              WHEN doubted_at IS NOT NULL OR attempt_opened_at IS NOT NULL THEN 'processing'
              ELSE 'pending' END AS status,
         attempts,
         coalesce(next_attempt_at, attempt_opened_at,
                  CASE WHEN status <> 'queued'
                       THEN max(coalesce(due_at, created_at), updated_at) END,
                  due_at, created_at) AS run_at,
         CASE WHEN status NOT IN ('sent', 'called', 'posted')
              THEN reason || CASE WHEN error IS NULL THEN '' ELSE ': ' || error END END AS last_error,
         waits_for, domain_event_id, step_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'workflow';

-- REPLACE takes away the row that is in its way and fires no DELETE trigger for it, so whatever may
-- not be deleted may not be replaced either. A row's own key is refused aloud. Where statements of
-- ours say ON CONFLICT DO NOTHING, a row with that key is left out, as they mean it.
CREATE TRIGGER channel_outbox_no_replace BEFORE INSERT ON channel_outbox
  WHEN EXISTS (SELECT 1 FROM channel_outbox o WHERE o.id = NEW.id AND o.status <> 'queued')
    OR EXISTS (SELECT 1 FROM channel_outbox o
                WHERE o.tenant_id = NEW.tenant_id AND o.workspace_id = NEW.workspace_id
                  AND o.idempotency_key = NEW.idempotency_key AND o.status <> 'queued')
  BEGIN
    SELECT CASE WHEN EXISTS (SELECT 1 FROM channel_outbox o WHERE o.id = NEW.id)
                THEN RAISE(ABORT, 'a terminal ledger row never changes')
                ELSE RAISE(IGNORE) END;
  END;
CREATE TRIGGER channel_outbox_keeps_its_key
  BEFORE UPDATE OF id, tenant_id, workspace_id, idempotency_key ON channel_outbox
  BEGIN SELECT RAISE(ABORT, 'a ledger row keeps its key'); END;
CREATE TRIGGER attempt_history_no_replace BEFORE INSERT ON attempt_history
  WHEN EXISTS (SELECT 1 FROM attempt_history h
                WHERE h.outbox_id = NEW.outbox_id AND h.attempt = NEW.attempt
                  AND h.repeat = NEW.repeat)
  BEGIN SELECT RAISE(ABORT, 'a closed attempt never changes'); END;
CREATE TRIGGER campaign_audit_log_no_replace BEFORE INSERT ON campaign_audit_log
  WHEN EXISTS (SELECT 1 FROM campaign_audit_log l WHERE l.id = NEW.id)
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER campaign_events_no_replace BEFORE INSERT ON campaign_events
  WHEN EXISTS (SELECT 1 FROM campaign_events e
                WHERE e.campaign_id = NEW.campaign_id AND e.sequence = NEW.sequence)
  BEGIN SELECT RAISE(ABORT, 'a campaign event never changes'); END;
CREATE TRIGGER run_events_no_replace BEFORE INSERT ON run_events
  WHEN EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = NEW.run_id AND e.run_seq = NEW.run_seq)
    OR EXISTS (SELECT 1 FROM run_events e
                WHERE e.run_id = NEW.run_id AND e.idempotency_key = NEW.idempotency_key)
    OR EXISTS (SELECT 1 FROM run_events e
                WHERE e.run_id = NEW.run_id AND e.signal_id = NEW.signal_id)
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;
CREATE TRIGGER run_snapshots_no_replace BEFORE INSERT ON run_snapshots
  WHEN EXISTS (SELECT 1 FROM run_snapshots s
                WHERE s.run_id = NEW.run_id AND s.last_event_seq = NEW.last_event_seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER contract_snapshots_no_replace BEFORE INSERT ON contract_snapshots
  WHEN EXISTS (SELECT 1 FROM contract_snapshots s WHERE s.id = NEW.id OR s.sha256 = NEW.sha256)
  BEGIN
    SELECT CASE WHEN EXISTS (SELECT 1 FROM contract_snapshots s WHERE s.id = NEW.id)
                THEN RAISE(ABORT, 'a contract snapshot never changes')
                ELSE RAISE(IGNORE) END;
  END;
CREATE TRIGGER assets_no_replace BEFORE INSERT ON assets
  WHEN EXISTS (SELECT 1 FROM assets a WHERE a.id = NEW.id)
    OR EXISTS (SELECT 1 FROM assets a
                WHERE a.campaign_id = NEW.campaign_id AND a.message_id = NEW.message_id
                  AND a.version = NEW.version)
  BEGIN SELECT RAISE(ABORT, 'an asset version never changes'); END;
CREATE TRIGGER domain_events_no_replace BEFORE INSERT ON domain_events
  WHEN EXISTS (SELECT 1 FROM domain_events e WHERE e.id = NEW.id)
    OR EXISTS (SELECT 1 FROM domain_events e
                WHERE e.tenant_id = NEW.tenant_id AND e.workspace_id = NEW.workspace_id
                  AND e.event_id = NEW.event_id)
  BEGIN
    SELECT CASE WHEN EXISTS (SELECT 1 FROM domain_events e WHERE e.id = NEW.id)
                THEN RAISE(ABORT, 'a domain event never changes')
                ELSE RAISE(IGNORE) END;
  END;

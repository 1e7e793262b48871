-- Message events: what receipts say of single messages, written down for all who listen.

-- name: message_event_subjects
-- Of these items, those that somebody wants to hear of: through their callback, or by a sink.
SELECT o.id::text, o.tenant_id::text, o.workspace_id::text, o.origin, o.run_id::text,
       (SELECT r.campaign_id::text FROM campaign_runs r WHERE r.id = o.run_id),
       o.domain_event_id::text, o.recipient_id, o.channel, o.submission_target,
       o.callback_id::text
  FROM channel_outbox o
 WHERE o.id IN window(id uuid)
   AND (o.callback_id IS NOT NULL
        OR EXISTS (SELECT 1 FROM event_bus_sinks s WHERE strpos(s.name, '@') > 1));

-- name: insert_message_events
-- In their order; a trigger writes them down for whoever has to hear of them.
INSERT INTO message_events (tenant_id, workspace_id, outbox_id, stream, callback_id, type,
                            occurred_at, recorded_at, data, contract_version)
SELECT tenant_id, workspace_id, outbox_id, stream, callback_id, type, occurred_at, :now, data::json,
       :contract_version
  FROM window(tenant_id uuid, workspace_id uuid, outbox_id uuid, stream uuid, callback_id uuid,
              type text, occurred_at timestamptz, data text) AS item;

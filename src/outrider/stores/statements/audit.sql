-- The audit trail: entries are appended in the transaction that makes them true.

-- name: insert_audit
INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, run_id, job_id,
                                outbox_id, actor, event, detail, created_at, content_hash)
SELECT id, tenant_id, workspace_id, campaign_id, run_id, job_id, outbox_id, actor, event,
       detail::json, :now, decode(content, 'hex')
  FROM window(id uuid, tenant_id uuid, workspace_id uuid, campaign_id uuid, run_id uuid,
              job_id uuid, outbox_id uuid, actor text, event text, detail text,
              content text) AS item;

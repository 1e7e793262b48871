-- Reading the audit trail: of a run, a campaign, a workspace.

-- name: audit_of_workspace
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id > :after
 ORDER BY campaign_audit_log.id LIMIT :most;

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

-- name: newest_audit_of_workspace
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
 ORDER BY campaign_audit_log.id DESC LIMIT :most;

-- name: newest_audit_of_run
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE run_id = :run_id AND id < :before
   AND tenant_id IS NOT DISTINCT FROM :tenant_id
   AND workspace_id IS NOT DISTINCT FROM :workspace_id
 ORDER BY campaign_audit_log.id DESC LIMIT :most;

-- name: newest_audit_of_campaign
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE campaign_id = :campaign_id AND id < :before
   AND tenant_id IS NOT DISTINCT FROM :tenant_id
   AND workspace_id IS NOT DISTINCT FROM :workspace_id
 ORDER BY campaign_audit_log.id DESC LIMIT :most;

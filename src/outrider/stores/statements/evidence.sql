-- What a bundle has beside chains and seals: contracts, templates and verdicts.

-- name: evidence_contracts
SELECT c.id, c.sha256, c.submission_target, c.document FROM contract_snapshots c
 WHERE c.id = ANY (ARRAY(SELECT j.contract_id FROM job_queue j WHERE j.run_id = :run_id))
    OR c.id = ANY (ARRAY(SELECT j.fallback_contract_id FROM job_queue j WHERE j.run_id = :run_id))
 ORDER BY c.id;

-- name: evidence_templates
SELECT a.id::text, a.version, a.message_id, a.channel, a.subject, a.body, a.script_version
  FROM assets a
 WHERE a.id = ANY (ARRAY(SELECT j.asset_id FROM job_queue j WHERE j.run_id = :run_id))
 ORDER BY a.id;

-- name: evidence_verdicts
SELECT v.id::text, v.outbox_id::text, v.doubted_at, v.verdict, v.kind, v.source,
       v.provider_message_id, v.given_at
  FROM doubt_verdicts v WHERE v.run_id = :run_id AND v.id > :after ORDER BY v.id LIMIT :most;

-- name: ended_run
SELECT id::text, tenant_id::text, workspace_id::text, status_seq, sealed_seq, finished_at
  FROM campaign_runs
 WHERE id = :run_id AND finished_at IS NOT NULL;

-- Artifacts of runs: what was written where, with its size and hash.

-- name: save_artifact
INSERT INTO artifacts (id, tenant_id, workspace_id, campaign_id, run_id, name, media_type,
                       reference, sha256, size_bytes, created_at)
VALUES (:id, :tenant_id, :workspace_id, :campaign_id, :run_id, :name, :media_type, :reference,
        :sha256, :size_bytes, :now)
ON CONFLICT (run_id, name) DO UPDATE
   SET media_type = excluded.media_type, reference = excluded.reference, sha256 = excluded.sha256,
       size_bytes = excluded.size_bytes, created_at = excluded.created_at;

-- name: artifacts_of_campaign
SELECT id::text, run_id::text, name, media_type, reference, sha256, size_bytes, created_at
  FROM artifacts
 WHERE campaign_id = :campaign_id AND id > :after ORDER BY artifacts.id LIMIT :most;

-- name: artifact_by_id
SELECT id::text, run_id::text, name, media_type, reference, sha256, size_bytes, created_at
  FROM artifacts
 WHERE id = :artifact_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- Seals of runs: which run is due, its seals, and the leaves under their roots.

-- name: claim_unsealed_run
-- A run that ended, for the first time or anew, and whose end is not sealed yet.
UPDATE campaign_runs SET sealing_until = :until
 WHERE id = (SELECT r.id FROM campaign_runs r
              WHERE r.finished_at IS NOT NULL AND r.sealed_seq < r.status_seq
                AND (r.sealing_until IS NULL OR r.sealing_until <= :now)
              ORDER BY r.finished_at, r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id::text, tenant_id::text, workspace_id::text, status_seq, sealed_seq, finished_at;

-- name: claim_run_to_reseal
UPDATE campaign_runs SET sealing_until = :until
 WHERE id = (SELECT r.id FROM campaign_runs r
              WHERE r.reseal_at <= :now
                AND (r.sealing_until IS NULL OR r.sealing_until <= :now)
              ORDER BY r.reseal_at, r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id::text, tenant_id::text, workspace_id::text, status_seq, sealed_seq, finished_at;

-- name: is_run_to_seal
SELECT 1 WHERE EXISTS (SELECT 1 FROM campaign_runs r
                        WHERE r.finished_at IS NOT NULL AND r.sealed_seq < r.status_seq)
            OR EXISTS (SELECT 1 FROM campaign_runs r WHERE r.reseal_at <= :now);

-- name: run_is_sealed
UPDATE campaign_runs
   SET sealed_seq = :status_seq, reseal_at = :reseal_at, sealing_until = NULL
 WHERE id = :run_id;

-- name: reported_of_run
SELECT coalesce(sum(items), 0)::int FROM run_deliveries WHERE run_id = :run_id;

-- name: insert_seal
INSERT INTO run_seals (run_id, seal, document, key_id, signature, salt)
VALUES (:run_id, :seal, :document, :key_id, :signature, :salt);

-- name: seals_of_run
SELECT s.seal, s.document, s.key_id, s.signature, s.salt, k.public_key
  FROM run_seals s LEFT JOIN evidence_keys k ON k.id = s.key_id
 WHERE s.run_id = :run_id ORDER BY s.seal LIMIT :most;

-- name: put_sealed_page
-- A process that died while sealing has left pages of a seal that was never made.
INSERT INTO sealed_pages (run_id, tree, page, seal, leaves)
VALUES (:run_id, :tree, :page, :seal, :leaves)
ON CONFLICT (run_id, tree, page, seal) DO UPDATE SET leaves = excluded.leaves;

-- name: sealed_page
-- As the given seal has it: its own, or that of the last one before.
SELECT p.leaves FROM sealed_pages p
 WHERE p.run_id = :run_id AND p.tree = :tree AND p.page = :page AND p.seal <= :seal
 ORDER BY p.seal DESC LIMIT 1;

-- name: insert_evidence_key
INSERT INTO evidence_keys (id, public_key, created_at) VALUES (:id, :public_key, :now)
ON CONFLICT (id) DO NOTHING;

-- name: evidence_keys
SELECT id, public_key, created_at FROM evidence_keys ORDER BY evidence_keys.created_at, id;

-- name: audit_head
SELECT workspace_id::text, seq, hash FROM audit_heads WHERE workspace_id = :workspace_id;

-- name: workspace_of_run
SELECT workspace_id::text FROM campaign_runs WHERE id = :run_id;

-- name: erasures_in_run
SELECT r.erasures FROM campaign_runs r WHERE r.id = :run_id;

-- name: lock_erasures_in_run
SELECT r.erasures FROM campaign_runs r WHERE r.id = :run_id FOR NO KEY UPDATE;

-- Erasures: their records, and which rows and files they are about.

-- name: insert_erasure
INSERT INTO erasures (id, tenant_id, workspace_id, actor, identity, begun_at)
VALUES (:id, :tenant_id, :workspace_id, :actor, :identity, :now);

-- name: erasures_of_workspace
-- Those that are not complete.
SELECT id::text, tenant_id::text, workspace_id::text, actor, identity, begun_at FROM erasures
 WHERE workspace_id = :workspace_id AND completed_at IS NULL ORDER BY erasures.id LIMIT :most;

-- name: erasures_under_way
SELECT id::text, tenant_id::text, workspace_id::text, actor, identity, begun_at FROM erasures
 WHERE completed_at IS NULL LIMIT :most;

-- name: complete_erasure
UPDATE erasures SET identity = NULL, completed_at = :now
 WHERE id = :id AND completed_at IS NULL RETURNING id::text;

-- name: insert_erased_rows
-- A row that was erased before keeps the hashes of what it was.
INSERT INTO erased_rows (id, erasure_id, run_id, hashes)
SELECT id, :erasure_id, run_id, hashes FROM window(id uuid, run_id uuid, hashes text) AS item WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: runs_are_erased_in
UPDATE campaign_runs SET erasures = erasures + 1 WHERE id IN window(id uuid);

-- name: salts_of_runs
SELECT s.run_id::text, s.salt FROM run_seals s WHERE s.run_id IN window(id uuid) AND s.seal = 1;

-- name: note_erasure_files
INSERT INTO erasure_files (erasure_id, campaign_id)
SELECT :erasure_id, id FROM window(id uuid) AS item WHERE true
ON CONFLICT (erasure_id, campaign_id) DO NOTHING;

-- name: erasure_files
SELECT campaign_id::text FROM erasure_files
 WHERE erasure_id = :erasure_id AND campaign_id > :after ORDER BY erasure_files.campaign_id LIMIT :most;

-- name: forget_erasure_files
DELETE FROM erasure_files WHERE erasure_id = :erasure_id AND campaign_id = :campaign_id;

-- name: erased_items_of_campaign
SELECT e.id::text FROM erased_rows e
 WHERE e.erasure_id = :erasure_id
   AND e.run_id = ANY (ARRAY(SELECT r.id FROM campaign_runs r WHERE r.campaign_id = :campaign_id));

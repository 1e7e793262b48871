-- Keys of what was retired: recognised until their memory ends.

-- name: remember_keys
INSERT INTO retired_keys (workspace_id, key, forget_at)
SELECT workspace_id, decode(key, 'hex'), :forget_at
  FROM window(workspace_id uuid, key text) AS item WHERE true
ON CONFLICT (workspace_id, key) DO NOTHING;

-- name: known_keys
SELECT encode(k.key, 'hex') FROM retired_keys k
 WHERE k.workspace_id = :workspace_id
   AND k.key = ANY (ARRAY(SELECT decode(key, 'hex') FROM window(key text) AS item));

-- name: forget_keys
DELETE FROM retired_keys
 WHERE (workspace_id, key) IN (SELECT k.workspace_id, k.key FROM retired_keys k
                                WHERE k.forget_at <= :now ORDER BY k.forget_at LIMIT :most)
RETURNING 1;

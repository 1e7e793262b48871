-- Opt-outs of people who were erased: salted hashes of their addresses.

-- name: put_erasure_salt
INSERT INTO erasure_salts (workspace_id, salt) VALUES (:workspace_id, :salt)
ON CONFLICT (workspace_id) DO NOTHING;

-- name: erasure_salt
SELECT salt FROM erasure_salts WHERE workspace_id = :workspace_id;

-- name: insert_erased_suppressions
INSERT INTO erased_suppressions AS e (workspace_id, channel, hash, topic, source,
                                      includes_transactional, created_at)
SELECT :workspace_id, channel, decode(hash, 'hex'), topic, source, includes_transactional, created_at
  FROM window(channel text, hash text, topic text, source text, includes_transactional boolean,
              created_at timestamptz) AS item WHERE true
ON CONFLICT (workspace_id, channel, hash, topic, source) DO UPDATE
   SET includes_transactional = e.includes_transactional OR excluded.includes_transactional;

-- name: relax_erased_suppressions
-- While a person is being erased nothing at all is sent to them; afterwards, what they ask for.
UPDATE erased_suppressions SET includes_transactional = false
 WHERE workspace_id = :workspace_id AND source = :source
   AND (channel, hash) IN (SELECT channel, decode(hash, 'hex')
                             FROM window(channel text, hash text) AS item);

-- name: lift_erased_suppressions
DELETE FROM erased_suppressions
 WHERE workspace_id = :workspace_id AND (:topic::text IS NULL OR topic = :topic)
   AND (channel, hash) IN (SELECT channel, decode(hash, 'hex')
                             FROM window(channel text, hash text) AS item)
RETURNING lower(encode(hash, 'hex'));

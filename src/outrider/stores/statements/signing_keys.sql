-- Signing keys: made once for a database, by whoever needs one first; everybody uses the same.

-- name: insert_signing_key
-- Whoever comes first decides; the others sign with the same.
INSERT INTO signing_keys (name, secret, created_at) VALUES (:name, :secret, :now)
ON CONFLICT DO NOTHING;

-- name: signing_key
SELECT secret FROM signing_keys WHERE name = :name;

-- Signing keys: created once per database on first use, and shared by every process.

-- name: insert_signing_key
-- The first writer decides; the others sign with the same key.
INSERT INTO signing_keys (name, secret, created_at) VALUES (:name, :secret, :now)
ON CONFLICT DO NOTHING;

-- name: signing_key
SELECT secret FROM signing_keys WHERE name = :name;

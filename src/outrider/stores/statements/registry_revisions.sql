-- Registries given to a server: each is a revision, which the other servers follow.

-- name: latest_registry_revision
SELECT coalesce(max(revision), 0) FROM registry_revisions WHERE revision > 0;

-- name: latest_registry
SELECT revision, sha256, document FROM registry_revisions
 WHERE revision > 0 ORDER BY revision DESC LIMIT 1;

-- name: registry_was_replaced
SELECT EXISTS (SELECT 1 FROM registry_revisions WHERE sha256 = :sha256 OR replaced_sha256 = :sha256);

-- name: serialise_registries
-- The next revision is the last one plus one. SQLite has one writer at a time anyway.
-- postgres:
SELECT pg_advisory_xact_lock(1869640816, 0);
-- sqlite:
SELECT 1;

-- name: insert_registry
INSERT INTO registry_revisions (revision, sha256, replaced_sha256, document, actor, created_at)
SELECT coalesce(max(revision), 0) + 1, :sha256, :replaced_sha256, :document, :actor, :now::timestamptz
  FROM registry_revisions WHERE revision > 0
RETURNING revision;

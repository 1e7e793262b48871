-- The registries that servers were given, in SQLite's dialect.

-- name: latest_registry_revision
SELECT coalesce(max(revision), 0) FROM registry_revisions WHERE revision > 0;

-- name: latest_registry
SELECT revision, sha256, document FROM registry_revisions
 WHERE revision > 0 ORDER BY revision DESC LIMIT 1;

-- name: registry_was_replaced
SELECT EXISTS (SELECT 1 FROM registry_revisions WHERE sha256 = :sha256 OR replaced_sha256 = :sha256);

-- name: serialise_registries
-- SQLite has one writer at a time anyway.
SELECT 1;

-- name: insert_registry
INSERT INTO registry_revisions (revision, sha256, replaced_sha256, document, actor, created_at)
SELECT coalesce(max(revision), 0) + 1, :sha256, :replaced_sha256, :document, :actor, :now
  FROM registry_revisions WHERE revision > 0
RETURNING revision;

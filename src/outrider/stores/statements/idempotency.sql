-- Idempotency records: claimed once, finished or abandoned by the claimant, pruned once expired.

-- name: claim_idempotency_key
-- A new record, or an expired one taken over; no row if another claim is valid. That one is locked
-- even so, and cannot change before this transaction has read it.
INSERT INTO idempotency_records (tenant_id, workspace_id, key, fingerprint, owner, expires_at)
VALUES (:tenant_id, :workspace_id, :key, :fingerprint, :owner, :expires_at)
ON CONFLICT (tenant_id, workspace_id, key) DO UPDATE
   SET fingerprint = excluded.fingerprint, owner = excluded.owner, answer = NULL,
       expires_at = excluded.expires_at
 WHERE idempotency_records.expires_at <= :now
RETURNING owner;

-- name: idempotency_record
SELECT fingerprint, answer FROM idempotency_records
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND key = :key;

-- name: finish_idempotency_key
UPDATE idempotency_records SET answer = :answer, expires_at = :expires_at
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND key = :key
   AND owner = :owner AND answer IS NULL;

-- name: renew_idempotency_key
UPDATE idempotency_records SET expires_at = :expires_at
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND key = :key
   AND owner = :owner AND answer IS NULL;

-- name: abandon_idempotency_key
DELETE FROM idempotency_records
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND key = :key
   AND owner = :owner AND answer IS NULL;

-- name: prune_idempotency_records
-- Records that others are using are skipped: this comes after a claim and must not block.
WITH old AS MATERIALIZED (
  SELECT ctid FROM idempotency_records WHERE expires_at <= :now
   ORDER BY expires_at LIMIT :most FOR UPDATE SKIP LOCKED
)
DELETE FROM idempotency_records WHERE ctid = ANY (ARRAY(SELECT ctid FROM old));

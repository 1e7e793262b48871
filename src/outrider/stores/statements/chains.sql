-- Hash chains: the audit log is chained in windows, and both chains are read to be verified.

-- name: unchained_audit
-- Locked, so that two processes never chain the same entry.
WITH oldest AS MATERIALIZED (
  SELECT q.id FROM unchained_audit q ORDER BY q.id LIMIT :most FOR UPDATE SKIP LOCKED
)
SELECT a.id::text, a.tenant_id::text, a.workspace_id::text, a.campaign_id::text, a.run_id::text,
       a.job_id::text, a.outbox_id::text, a.actor, a.event, a.created_at, a.detail
  FROM campaign_audit_log a WHERE a.id = ANY (ARRAY(SELECT id FROM oldest))
 ORDER BY a.id;

-- name: is_audit_unchained
SELECT 1 FROM unchained_audit LIMIT 1;

-- name: open_audit_heads
INSERT INTO audit_heads (workspace_id)
SELECT workspace_id FROM window(workspace_id uuid) AS item WHERE true
ON CONFLICT (workspace_id) DO NOTHING;

-- name: lock_audit_heads
-- In one order, so that two processes never wait for each other.
SELECT workspace_id::text, seq, hash FROM audit_heads
 WHERE workspace_id IN window(workspace_id uuid)
 ORDER BY audit_heads.workspace_id FOR UPDATE;

-- name: insert_audit_chain
INSERT INTO audit_chain (workspace_id, seq, id, hash)
SELECT workspace_id, seq, id, decode(hash, 'hex')
  FROM window(workspace_id uuid, seq bigint, id uuid, hash text) AS item;

-- name: move_audit_heads
UPDATE audit_heads AS h SET seq = item.seq, hash = decode(item.hash, 'hex')
  FROM window(workspace_id uuid, seq bigint, hash text) AS item
 WHERE h.workspace_id = item.workspace_id;

-- name: forget_unchained_audit
DELETE FROM unchained_audit WHERE id IN window(id uuid);

-- name: chained_runs
-- With the first event beyond the run's own counter, if there is one.
SELECT r.id::text, r.last_seq, r.chain_head,
       (SELECT min(e.run_seq) FROM run_events e WHERE e.run_id = r.id AND e.run_seq > r.last_seq)
         AS beyond, r.retired_at IS NOT NULL AS is_retired
  FROM campaign_runs r WHERE r.id > :after ORDER BY r.id LIMIT :most;

-- name: chained_run
SELECT r.id::text, r.last_seq, r.chain_head,
       (SELECT min(e.run_seq) FROM run_events e WHERE e.run_id = r.id AND e.run_seq > r.last_seq)
         AS beyond, r.retired_at IS NOT NULL AS is_retired
  FROM campaign_runs r WHERE r.id = :run_id;

-- name: chained_events
SELECT e.run_seq, e.chain_hash, e.run_id::text, e.type, e.occurred_at, e.step_id,
       e.logical_attempt, e.engine_attempt, e.emitter, e.plan_version,
       encode(e.idempotency_key, 'hex') AS key, e.contract_version, e.signal_id, e.payload
  FROM run_events e
 WHERE e.run_id = :run_id AND e.run_seq > :after AND e.run_seq <= :until
 ORDER BY e.run_seq LIMIT :most;

-- name: audit_heads
SELECT workspace_id::text, seq, hash FROM audit_heads
 WHERE workspace_id > :after ORDER BY audit_heads.workspace_id LIMIT :most;

-- name: audit_chain_page
-- Each link with the entry it is about; an entry that was removed is missing.
SELECT c.seq, c.hash, a.content_hash, c.id::text, a.tenant_id::text, a.workspace_id::text,
       a.campaign_id::text, a.run_id::text, a.job_id::text, a.outbox_id::text, a.actor, a.event,
       a.created_at, a.detail
  FROM audit_chain c LEFT JOIN campaign_audit_log a ON a.id = c.id
 WHERE c.workspace_id = :workspace_id AND c.seq > :after
 ORDER BY c.seq LIMIT :most;

-- name: audit_without_chain
-- Of the next entries by id: whether each is chained, or waits to be.
SELECT a.id::text, a.workspace_id::text,
       (SELECT c.id FROM audit_chain c WHERE c.id = a.id LIMIT 1) IS NOT NULL AS is_chained,
       (SELECT u.id FROM unchained_audit u WHERE u.id = a.id LIMIT 1) IS NOT NULL AS is_waiting,
       (a.run_id IS NOT NULL
        AND (SELECT r.id FROM campaign_runs r WHERE r.id = a.run_id LIMIT 1) IS NULL) AS lacks_run,
       a.run_id::text
  FROM campaign_audit_log a WHERE a.id > :after ORDER BY a.id LIMIT :most;

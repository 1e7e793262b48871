-- Suppressions that follow from receipts.

-- name: insert_receipt_suppressions
-- A bounce or complaint replaces what STOP said, because START does not lift it. What somebody had
-- forbidden before a STOP reaches further with it, and stays theirs: START must not lift that either.
INSERT INTO suppressions AS s (tenant_id, workspace_id, channel, address, topic, reason, source,
                               evidence, includes_transactional, created_at)
SELECT :tenant_id, :workspace_id, channel, lower(address), '', reason, source, evidence, true, :now
  FROM window(channel text, address text, reason text, source text, evidence text) AS item WHERE true
ON CONFLICT (tenant_id, workspace_id, channel, address, topic) DO UPDATE
   SET reason = excluded.reason, evidence = excluded.evidence,
       source = CASE WHEN excluded.source = 'stop' THEN s.source ELSE excluded.source END,
       includes_transactional = true, created_at = excluded.created_at
 WHERE NOT s.includes_transactional OR (s.source = 'stop' AND excluded.source <> 'stop')
RETURNING channel, address, source;

-- name: lock_suppressions
SELECT s.channel FROM suppressions s
 WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
   AND (s.channel, s.address) IN (SELECT channel, lower(address)
                                    FROM window(channel text, address text) AS item)
 ORDER BY s.channel, s.address, s.topic FOR UPDATE;

-- name: lift_stopped
-- Only what a STOP made: nobody bounces less because they write START.
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, lower(address)
                                FROM window(channel text, address text) AS item)
   AND source = 'stop'
RETURNING channel, address;

-- Suppressions: written in windows, and looked up for previews that send nothing.

-- name: suppressed_among
-- Those of the window that would be held back, by their index in it.
SELECT item.place
  FROM window(place int, channel text, address text, topic text, transactional boolean) AS item
 WHERE EXISTS (SELECT 1 FROM suppressions s
                WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                  AND s.channel = item.channel AND s.address = lower(item.address)
                  AND (s.topic = '' OR s.topic = item.topic)
                  AND (s.includes_transactional OR NOT item.transactional))
    OR EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
              ON e.workspace_id = z.workspace_id AND e.channel = item.channel
             AND e.hash = outrider_address_hash(z.salt, item.address)
             AND (e.topic = '' OR e.topic = item.topic)
             AND (e.includes_transactional OR NOT item.transactional)
           WHERE z.workspace_id = :workspace_id);

-- name: suppressions_page
SELECT channel, address, topic, reason, source, evidence, includes_transactional, created_at
  FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address, topic) > (:after_channel, :after_address, :after_topic)
 ORDER BY channel, address, topic LIMIT :most;

-- name: delete_suppressions
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, lower(address) FROM window(channel text,
       address text) AS item)
   AND (:topic::text IS NULL OR topic = :topic)
RETURNING address;

-- name: insert_suppressions
-- Those that are new, that now reach further, or that START would have lifted.
INSERT INTO suppressions AS s (tenant_id, workspace_id, channel, address, topic, reason, source,
                               evidence, includes_transactional, created_at)
SELECT :tenant_id, :workspace_id, channel, lower(address), :topic, :reason, :source, :evidence,
       :includes_transactional, :now
  FROM window(channel text, address text) AS item WHERE true
ON CONFLICT (tenant_id, workspace_id, channel, address, topic) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, evidence = excluded.evidence,
       includes_transactional = true, created_at = excluded.created_at
 WHERE (excluded.includes_transactional AND NOT s.includes_transactional)
    OR (s.source = 'stop' AND excluded.source <> 'stop')
RETURNING address;

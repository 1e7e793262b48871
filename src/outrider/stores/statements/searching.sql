-- What somebody searches for by an id or a name, each by one index.

-- name: campaign_named_by_id
SELECT c.id::text, c.name, c.created_at FROM campaigns c
 WHERE c.id = :id AND c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id;

-- name: run_found
SELECT r.id::text, c.name, r.phase, r.status, r.created_at
  FROM campaign_runs r JOIN campaigns c ON c.id = r.campaign_id
 WHERE r.id = :id AND r.tenant_id = :tenant_id AND r.workspace_id = :workspace_id;

-- name: items_of_provider_message
SELECT o.id::text
  FROM provider_messages m {sqlite: CROSS} JOIN channel_outbox o ON o.id = m.outbox_id
 WHERE m.provider_message_id = :words
   AND unindexed(o.tenant_id) = :tenant_id AND unindexed(o.workspace_id) = :workspace_id
 LIMIT :most;

-- name: campaigns_named
-- Of the newest campaigns, those with these words in their name.
SELECT c.id::text, c.name, c.created_at
  FROM (SELECT id, name, created_at FROM campaigns
         WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
         ORDER BY id DESC LIMIT :looked) c
 WHERE strpos(lowered(c.name), :words) > 0
 LIMIT :most;

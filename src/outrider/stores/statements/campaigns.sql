-- Creating and reading campaigns: definition, immutable assets and the audience, all or nothing.

-- name: last_sequences
SELECT id::text, last_sequence FROM campaigns
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND id IN window(id uuid);

-- name: insert_campaign
INSERT INTO campaigns (id, tenant_id, workspace_id, name, definition, created_at)
VALUES (:id, :tenant_id, :workspace_id, :name, :definition, :now);

-- name: insert_phases
INSERT INTO campaign_phases (campaign_id, phase, ordinal, updated_at)
SELECT :campaign_id, phase, ordinal, :now
  FROM window(phase text, ordinal int) AS item;

-- name: insert_assets
INSERT INTO assets (id, version, tenant_id, workspace_id, campaign_id, message_id, channel,
                    submission_target, subject, body, script_version, topic, transactional,
                    mail, variant, created_at)
SELECT id, version, :tenant_id, :workspace_id, :campaign_id, message_id, channel, submission_target,
       subject, body, script_version, topic, transactional, mail, variant, :now
  FROM window(id uuid, version int, message_id text, channel text, submission_target text,
              subject text, body text, script_version text, topic text, transactional boolean,
              mail text, variant text) AS item;

-- name: campaign_by_id
SELECT id::text, name, definition, audience_size, last_sequence, created_at FROM campaigns
 WHERE id = :campaign_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: phases_of_campaign
SELECT phase, state, run_id::text, updated_at, last_sequence, reason, started_at, finished_at
  FROM campaign_phases
 WHERE campaign_id = :campaign_id ORDER BY ordinal;

-- name: assets_of_campaign
SELECT id::text, version, message_id, channel, submission_target, subject, body, script_version,
       topic, transactional, mail, variant
  FROM assets WHERE campaign_id = :campaign_id ORDER BY assets.id;

-- name: asset_by_id
SELECT id::text, version, message_id, channel, submission_target, subject, body, script_version,
       topic, transactional, mail, variant
  FROM assets WHERE id = :asset_id;

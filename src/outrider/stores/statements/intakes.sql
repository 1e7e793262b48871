-- Intakes: audiences written in many short transactions, invisible until the last of them.

-- name: open_intake
-- None if another one is in progress.
INSERT INTO audience_intakes (campaign_id, id, first_position, first_chunk, expires_at)
VALUES (:campaign_id, :id, :first_position, :first_chunk, :expires_at)
ON CONFLICT (campaign_id) DO NOTHING RETURNING id::text;

-- name: intake_of_campaign
SELECT id::text FROM audience_intakes WHERE campaign_id = :campaign_id;

-- name: keep_intake
-- Locks its row: what this transaction writes cannot be removed concurrently.
UPDATE audience_intakes SET expires_at = :expires_at
 WHERE campaign_id = :campaign_id AND id = :id AND abandoned = false RETURNING id::text;

-- name: close_intake
DELETE FROM audience_intakes WHERE campaign_id = :campaign_id AND id = :id AND abandoned = false
RETURNING id::text;

-- name: abandon_intake
UPDATE audience_intakes SET abandoned = true WHERE campaign_id = :campaign_id AND id = :id;

-- name: abandon_expired_intakes
UPDATE audience_intakes SET abandoned = true WHERE expires_at < :now
RETURNING campaign_id::text, id::text, first_position, first_chunk;

-- name: forget_intake
DELETE FROM audience_intakes WHERE campaign_id = :campaign_id AND id = :id;

-- name: take_members_away
DELETE FROM audience_members WHERE campaign_id = :campaign_id AND position >= :first;

-- name: take_address_pages_away
DELETE FROM address_pages WHERE campaign_id = :campaign_id AND first_position >= :first;

-- name: take_uploads_away
DELETE FROM audience_uploads WHERE campaign_id = :campaign_id AND chunk >= :first;

-- Audiences that are being written in many short transactions, and what is left of those that broke off.

-- name: open_intake
-- None where another one is under way.
INSERT INTO audience_intakes (campaign_id, id, first_position, first_chunk, expires_at)
VALUES (:campaign_id, :id, :first_position, :first_chunk, :expires_at)
ON CONFLICT (campaign_id) DO NOTHING RETURNING id::text;

-- name: intake_of_campaign
SELECT id::text FROM audience_intakes WHERE campaign_id = :campaign_id;

-- name: keep_intake
-- Locks its row: what is written in this transaction is written before anybody takes it away.
UPDATE audience_intakes SET expires_at = :expires_at
 WHERE campaign_id = :campaign_id AND id = :id AND NOT abandoned RETURNING id::text;

-- name: close_intake
DELETE FROM audience_intakes WHERE campaign_id = :campaign_id AND id = :id AND NOT abandoned
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

-- name: take_uploads_away
DELETE FROM audience_uploads WHERE campaign_id = :campaign_id AND chunk >= :first;

-- name: find_duplicates
-- As `mark_duplicates` finds them, without holding up a writer: those that are not marked so yet.
WITH addressed AS (
  SELECT position, message_id, 1 AS kind, lower(email) AS address FROM audience_members
   WHERE campaign_id = :campaign_id AND email IS NOT NULL AND invalid & 1 = 0
  UNION ALL
  SELECT position, message_id, 2, phone FROM audience_members
   WHERE campaign_id = :campaign_id AND phone IS NOT NULL AND invalid & 2 = 0
  UNION ALL
  SELECT position, message_id, 4, push_token FROM audience_members
   WHERE campaign_id = :campaign_id AND push_token IS NOT NULL AND invalid & 4 = 0
), shared AS MATERIALIZED (
  SELECT kind, address FROM addressed GROUP BY kind, address HAVING count(*) > 1
), ranked AS (
  SELECT position, message_id, kind,
         row_number() OVER (PARTITION BY kind, address, message_id ORDER BY position) AS nth,
         min(CASE WHEN message_id IS NULL THEN position END)
           OVER (PARTITION BY kind, address) AS first_to_get_all,
         min(position) OVER (PARTITION BY kind, address) AS first
    FROM shared JOIN addressed USING (kind, address)
), repeated AS (
  SELECT position, sum(kind) AS kinds FROM ranked
   WHERE nth > 1 OR first_to_get_all < position OR (message_id IS NULL AND first < position)
   GROUP BY position
)
SELECT repeated.position, repeated.kinds::int FROM repeated JOIN audience_members m
    ON m.campaign_id = :campaign_id AND m.position = repeated.position
 WHERE m.duplicate <> repeated.kinds LIMIT :most;

-- name: set_duplicates
UPDATE audience_members AS m SET duplicate = item.kinds
  FROM json_to_recordset(:window) AS item (position int, kinds int)
 WHERE m.campaign_id = :campaign_id AND m.position = item.position;

-- A campaign's audience: uploads awaiting import, members, and what is known about them.

-- name: count_members
SELECT count(*) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: next_position
SELECT coalesce(max(position) + 1, 0) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: members_between
SELECT position, recipient_id, email, phone, push_token, invalid FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first AND :last ORDER BY position;

-- name: count_placed
-- How many of these are in the audience, at these positions.
SELECT count(*) FROM window(position int, recipient_id text) AS item
 {sqlite: CROSS JOIN audience_members m
           ON m.campaign_id = :campaign_id AND m.position = item.position
          AND m.recipient_id = item.recipient_id}
 {postgres: CROSS JOIN LATERAL (
   SELECT 1 FROM audience_members m
    WHERE m.campaign_id = :campaign_id AND m.position = item.position
      AND m.recipient_id = item.recipient_id LIMIT 1) found};

-- name: import_members
-- Idempotent; an id that already exists is left out.
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
                              attributes, message_id, invalid)
SELECT :campaign_id, position, recipient_id, email, phone, push_token, attributes::json,
       message_id, invalid
  FROM window(position int, recipient_id text, email text, phone text, push_token text,
              attributes text, message_id text, invalid int) AS item WHERE true
ON CONFLICT DO NOTHING;

-- name: import_new_members
-- Into an empty audience, where a repeated id is refused.
-- postgres:
COPY audience_members (campaign_id, position, recipient_id, email, phone, push_token, attributes,
                       message_id, invalid) FROM STDIN;
-- sqlite:
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
                              attributes, message_id, invalid)
SELECT :campaign_id, position, recipient_id, email, phone, push_token, attributes, message_id,
       invalid
  FROM window(position int, recipient_id text, email text, phone text, push_token text,
              attributes text, message_id text, invalid int) AS item;

-- name: insert_address_pages
-- A repeated import has the same pages; whoever places other recipients there adds to them.
INSERT INTO address_pages AS p (campaign_id, bucket, first_position, entries)
SELECT :campaign_id, bucket, :first_position::int, decode(entries, 'hex')
  FROM window(bucket int, entries text) AS item WHERE true
ON CONFLICT (campaign_id, bucket, first_position) DO UPDATE
   SET entries = p.entries || excluded.entries WHERE p.entries <> excluded.entries;

-- name: mark_invalid
UPDATE audience_members SET invalid = invalid | :kind
 WHERE campaign_id = :campaign_id
   AND position IN window(position int);

-- name: upload_totals
SELECT coalesce(max(chunk) + 1, 0), coalesce(max(first_position + record_count), 0)
  FROM audience_uploads WHERE campaign_id = :campaign_id;

-- name: insert_upload
INSERT INTO audience_uploads (campaign_id, chunk, first_position, record_count, records)
VALUES (:campaign_id, :chunk, :first_position, :record_count, :records);

-- name: uploads_of_campaign
SELECT chunk, first_position, record_count FROM audience_uploads
 WHERE campaign_id = :campaign_id ORDER BY chunk;

-- name: upload_by_chunk
SELECT records FROM audience_uploads WHERE campaign_id = :campaign_id AND chunk = :chunk;

-- name: repeated_uploads
-- The positions of records whose id an earlier one has. The campaign's chunks are read once.
WITH given AS MATERIALIZED (
  {sqlite: SELECT u.first_position + record.key AS position,
          CASE record.type WHEN 'object' THEN record.value ->> 'id' END AS id
     FROM audience_uploads u CROSS JOIN json_each(u.records) record}
  {postgres: SELECT u.first_position + record.number::int - 1 AS position,
          record.value ->> 'id' AS id
     FROM audience_uploads u
    CROSS JOIN json_array_elements(u.records) WITH ORDINALITY AS record (value, number)}
   WHERE u.campaign_id = :campaign_id
), repeated AS (
  SELECT id, min(position) AS first FROM given GROUP BY id HAVING count(*) > 1
)
SELECT given.position FROM repeated JOIN given USING (id)
 WHERE given.position > repeated.first ORDER BY given.position;

-- name: find_duplicates
-- Finds the same as `mark_duplicates` without blocking a writer: those not yet marked.
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
    FROM shared {sqlite: CROSS} JOIN addressed USING (kind, address)
), repeated AS (
  SELECT position, sum(kind) AS kinds FROM ranked
   WHERE nth > 1 OR first_to_get_all < position OR (message_id IS NULL AND first < position)
   GROUP BY position
)
SELECT repeated.position, repeated.kinds::int FROM repeated {sqlite: CROSS} JOIN audience_members m
    ON m.campaign_id = :campaign_id AND m.position = repeated.position
 WHERE m.duplicate <> repeated.kinds LIMIT :most;

-- name: set_duplicates
UPDATE audience_members AS m SET duplicate = item.kinds
  FROM window(position int, kinds int) AS item
 WHERE m.campaign_id = :campaign_id AND m.position = item.position;

-- name: mark_duplicates
-- A member is a duplicate on an address if an earlier member gets the same message there. Only
-- addresses shared by several members are ranked; mostly there are none.
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
    FROM shared {sqlite: CROSS} JOIN addressed USING (kind, address)
), repeated AS (
  SELECT position, sum(kind) AS kinds FROM ranked
   WHERE nth > 1 OR first_to_get_all < position OR (message_id IS NULL AND first < position)
   GROUP BY position
)
UPDATE audience_members SET duplicate = repeated.kinds FROM repeated
 WHERE campaign_id = :campaign_id AND audience_members.position = repeated.position;

-- name: set_audience_size
UPDATE campaigns SET audience_size = :size WHERE id = :campaign_id;

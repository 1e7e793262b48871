-- Who is in which audience, by address, without an index entry for every recipient: those made an
-- import several times slower. A page has a fingerprint of each address of one window of an audience
-- (four bytes: its CRC-32; and four more: how far behind `first_position` it is), and windows with
-- more than a few addresses have a page for each of 32 buckets of fingerprints.
CREATE TABLE address_pages (
  campaign_id text NOT NULL,
  bucket integer NOT NULL,
  first_position integer NOT NULL,
  entries blob NOT NULL,
  PRIMARY KEY (campaign_id, bucket, first_position)
) STRICT, WITHOUT ROWID;

-- Audiences that are there already.
INSERT INTO address_pages
SELECT campaign_id, mark >> 27, position / 1000 * 1000,
       unhex(group_concat(printf('%08x%08x', mark, position % 1000), ''))
  FROM (SELECT campaign_id, position, crc32(lowered(email)) AS mark
          FROM audience_members WHERE email <> ''
        UNION ALL
        SELECT campaign_id, position, crc32(lowered(phone))
          FROM audience_members WHERE phone <> ''
        UNION ALL
        SELECT campaign_id, position, crc32(push_token)
          FROM audience_members WHERE push_token <> '') marked
 GROUP BY 1, 2, 3;

DROP INDEX audience_members_by_email;
DROP INDEX audience_members_by_phone;
DROP INDEX audience_members_by_token;

-- Who is in which audience, by address, without an index entry for every recipient: those made an
-- import several times slower. A page has a fingerprint of each address of one window of an audience
-- (four bytes: its CRC-32; and four more: how far behind `first_position` it is), and windows with
-- more than a few addresses have a page for each of 32 buckets of fingerprints.
CREATE TABLE address_pages (
  campaign_id uuid NOT NULL,
  bucket smallint NOT NULL,
  first_position integer NOT NULL,
  entries bytea NOT NULL,
  PRIMARY KEY (campaign_id, bucket, first_position)
);
-- Fingerprints do not compress.
ALTER TABLE address_pages ALTER COLUMN entries SET STORAGE EXTERNAL;

-- Audiences that are there already. Postgres 15 has no CRC-32; `steps` is its table of all bytes.
CREATE FUNCTION pg_temp.crc32(given bytea, steps bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  crc bigint := 4294967295;
BEGIN
  FOR place IN 0 .. length(given) - 1 LOOP
    crc := (crc >> 8) # steps[((crc # get_byte(given, place)) & 255) + 1];
  END LOOP;
  RETURN crc # 4294967295;
END
$$;
INSERT INTO address_pages
WITH RECURSIVE step (byte, bit, crc) AS (
  SELECT byte, 0, byte::bigint FROM generate_series(0, 255) AS byte
  UNION ALL
  SELECT byte, bit + 1, CASE crc & 1 WHEN 1 THEN (crc >> 1) # 3988292384 ELSE crc >> 1 END
    FROM step WHERE bit < 8
), crcs AS MATERIALIZED (
  SELECT array_agg(crc ORDER BY byte) AS steps FROM step WHERE bit = 8
), marked AS (
  SELECT m.campaign_id, m.position, pg_temp.crc32(convert_to(a.address, 'UTF8'), steps) AS mark
    FROM crcs CROSS JOIN audience_members m
   CROSS JOIN LATERAL (VALUES (lower(m.email)), (lower(m.phone)), (m.push_token)) AS a (address)
   WHERE a.address <> ''
)
SELECT campaign_id, mark >> 27, position / 1000 * 1000,
       string_agg(decode(lpad(to_hex(mark), 8, '0'), 'hex') || int4send(position % 1000), ''::bytea)
  FROM marked GROUP BY 1, 2, 3;
DROP FUNCTION pg_temp.crc32;

DROP INDEX audience_members_by_email;
DROP INDEX audience_members_by_phone;
DROP INDEX audience_members_by_token;

-- What previews and dry runs read: one recipient, who passes the screens, and what was left over.

-- name: member_for_preview
SELECT recipient_id, email, phone, push_token, attributes, invalid, duplicate FROM audience_members
 WHERE campaign_id = :campaign_id AND recipient_id = :recipient_id;

-- name: first_member
SELECT recipient_id, email, phone, push_token, attributes, invalid, duplicate FROM audience_members
 WHERE campaign_id = :campaign_id ORDER BY position LIMIT 1;

-- name: count_screened
-- The outcome for everyone who gets this message, if it were sent now.
SELECT CASE WHEN :kind::int = 0 THEN NULL
            WHEN address IS NULL OR address = '' THEN 'no_address'
            WHEN invalid & :kind > 0 THEN 'invalid_address'
            WHEN duplicate & :kind > 0 THEN 'duplicate_address'
            WHEN EXISTS (SELECT 1 FROM suppressions s
                          WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                            AND s.channel = :channel AND s.address = lower(member.address)
                            AND (s.topic = '' OR s.topic = :topic::text)
                            AND (s.includes_transactional OR NOT :transactional::boolean))
              OR EXISTS (SELECT 1 FROM erasure_salts z JOIN erased_suppressions e
                        ON e.workspace_id = z.workspace_id AND e.channel = :channel
                       AND e.hash = outrider_address_hash(z.salt, member.address)
                       AND (e.topic = '' OR e.topic = :topic::text)
                       AND (e.includes_transactional OR NOT :transactional::boolean)
                     WHERE z.workspace_id = :workspace_id)
              THEN 'suppressed' END AS why, count(*)
  FROM (SELECT CASE :kind::int WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END
                 AS address, invalid, duplicate
          FROM audience_members
         WHERE campaign_id = :campaign_id
           AND (message_id IS NULL OR message_id = :message_id)) member
 GROUP BY 1 ORDER BY 1;

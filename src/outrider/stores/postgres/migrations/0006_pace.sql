-- A ledger row is written once when it is reserved and once when it is closed. Half of a page is
-- kept for the second, so that no index hears of it.
ALTER TABLE channel_outbox SET (fillfactor = 50);

-- Whoever adds members has read their campaign in the same transaction, and campaigns are never
-- deleted: a check for each member could find nothing, and cost a third of the member.
ALTER TABLE audience_members DROP CONSTRAINT audience_members_campaign_id_fkey;

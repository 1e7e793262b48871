-- Whoever asks about one person, by address or by recipient id. No message of a campaign pays for it:
-- its rows are found by their keys, which follow from the runs of the campaigns that a person is an
-- audience member of. Nothing in these indexes ever changes, so no close of an attempt touches them.
CREATE INDEX audience_members_by_email ON audience_members (lower(email), campaign_id)
  WHERE email IS NOT NULL;
CREATE INDEX audience_members_by_phone ON audience_members (phone, campaign_id)
  WHERE phone IS NOT NULL;
CREATE INDEX audience_members_by_token ON audience_members (push_token, campaign_id)
  WHERE push_token IS NOT NULL;

-- Single messages have no audience: an intent has an address, and a workflow's message a recipient id
-- (its address is in channel_outbox_heard already). Each of them is in one more index, not in both.
CREATE INDEX channel_outbox_intents_to ON channel_outbox
  (workspace_id, lower(recipient_address), id) WHERE origin = 'intent';
CREATE INDEX channel_outbox_workflow_recipients ON channel_outbox
  (workspace_id, recipient_id, id) WHERE origin = 'workflow';

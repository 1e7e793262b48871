-- An exhausted intent is final: sending its message after all takes a new intent, linked here. Each is
-- resubmitted once; the new one may be, in its turn.
CREATE TABLE resubmissions (
  outbox_id uuid PRIMARY KEY,
  original_id uuid NOT NULL UNIQUE,
  actor text NOT NULL,
  resubmitted_at timestamptz NOT NULL
);

-- Verdicts that a message was sent, without saying which of the provider's it is: one that is found by
-- its content may be theirs.
CREATE INDEX doubt_verdicts_without_message ON doubt_verdicts (doubted_at)
  WHERE verdict = 'sent' AND provider_message_id IS NULL;

-- What waits for people, and for how long: an alert asks every few seconds.
CREATE INDEX doubt_checks_of_people ON doubt_checks (since) WHERE settles = 'person';

-- Whom a domain event names, where no message to them tells of it: a disabled rule, a digest, a failed
-- route, nobody included. So the event is in their story. Written when an event is settled; an event with
-- a message for everybody it names writes nothing here.
CREATE TABLE event_people (
  workspace_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('email', 'phone', 'push_token', 'recipient')),
  address text NOT NULL,
  domain_event_id uuid NOT NULL,
  PRIMARY KEY (workspace_id, kind, address, domain_event_id)
);

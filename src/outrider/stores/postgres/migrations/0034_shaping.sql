-- Warm-up plans: what a target has sent on each day of its own zone, and today's messages, so that each
-- counts once. The row of a day is what two transactions that open messages wait for.
CREATE TABLE warm_up_days (
  submission_target text NOT NULL,
  day text NOT NULL,
  sent integer NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (submission_target, day)
);
CREATE TABLE warm_up_sends (
  submission_target text NOT NULL,
  day text NOT NULL,
  outbox_id uuid NOT NULL,
  PRIMARY KEY (submission_target, day, outbox_id)
);

-- The doors of recipient domains, as far as a target shapes them: the token bucket of each, and whether
-- its mailbox provider asks to retry later. Domains of one provider share a door under its name.
-- `workspace_id` is empty unless a workspace calls with its own credentials.
CREATE TABLE domain_doors (
  submission_target text NOT NULL,
  gateway_url text NOT NULL,
  workspace_id text NOT NULL DEFAULT '',
  domain text NOT NULL,
  tokens double precision NOT NULL,
  refilled_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'throttled')),
  closed_at timestamptz,
  opens_at timestamptz,
  probe_ends_at timestamptz,
  epoch bigint NOT NULL DEFAULT 0,
  step integer NOT NULL DEFAULT 0,
  reason text,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (submission_target, gateway_url, workspace_id, domain),
  CHECK ((state = 'open') = (opens_at IS NULL))
);

-- Which part of a domain's connections each worker has, where they are limited.
CREATE TABLE domain_shares (
  submission_target text NOT NULL,
  gateway_url text NOT NULL,
  workspace_id text NOT NULL DEFAULT '',
  domain text NOT NULL,
  worker_id text NOT NULL,
  slots integer NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (submission_target, gateway_url, workspace_id, domain, worker_id)
);

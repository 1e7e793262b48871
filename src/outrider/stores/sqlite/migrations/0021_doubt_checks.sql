-- How each doubt settles next, when it is looked into, and how often it was. A row is made and
-- removed with the doubt itself, whoever puts an item in doubt or settles it. Until somebody has
-- looked, nothing is known of how it settles. Whoever looks moves `next_check_at` on, as a lease.
CREATE TABLE doubt_checks (
  outbox_id text PRIMARY KEY,
  doubted_at text NOT NULL,
  settles text CHECK (settles IN ('receipt', 'key', 'look_up', 'person')),
  since text NOT NULL,
  next_check_at text,
  checks integer NOT NULL DEFAULT 0,
  checked_at text,
  finding text CHECK (finding IN ('found', 'absent', 'unknown')),
  detail text,
  fence integer NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX doubt_checks_due ON doubt_checks (next_check_at, outbox_id)
  WHERE next_check_at IS NOT NULL;
INSERT INTO doubt_checks (outbox_id, doubted_at, since, next_check_at)
SELECT id, doubted_at, doubted_at, doubted_at FROM channel_outbox WHERE doubted_at IS NOT NULL;

CREATE TRIGGER channel_outbox_doubt_begun AFTER UPDATE OF doubted_at ON channel_outbox
  WHEN NEW.doubted_at IS NOT NULL AND OLD.doubted_at IS NOT NEW.doubted_at
  BEGIN
    DELETE FROM doubt_checks WHERE outbox_id = NEW.id;
    INSERT INTO doubt_checks (outbox_id, doubted_at, since, next_check_at)
    VALUES (NEW.id, NEW.doubted_at, NEW.doubted_at, NEW.doubted_at);
  END;
CREATE TRIGGER channel_outbox_doubt_ended AFTER UPDATE OF doubted_at ON channel_outbox
  WHEN NEW.doubted_at IS NULL AND OLD.doubted_at IS NOT NULL
  BEGIN DELETE FROM doubt_checks WHERE outbox_id = NEW.id; END;

-- By what each doubt was settled. A message that was found by its content settles one doubt only.
CREATE TABLE doubt_verdicts (
  id text PRIMARY KEY,
  outbox_id text NOT NULL,
  doubted_at text NOT NULL,
  run_id text,
  verdict text NOT NULL CHECK (verdict IN ('sent', 'failed', 'resubmit', 'ask_again')),
  kind text NOT NULL CHECK
    (kind IN ('receipt', 'key', 'look_up', 'look_up_by_content', 'record', 'person')),
  source text NOT NULL,
  provider_message_id text,
  given_at text NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX doubt_verdicts_by_item ON doubt_verdicts (outbox_id, id);
CREATE INDEX doubt_verdicts_by_run ON doubt_verdicts (run_id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX doubt_verdicts_by_message ON doubt_verdicts (source, provider_message_id)
  WHERE kind = 'look_up_by_content' AND provider_message_id IS NOT NULL;

-- Which request each target's messages are made with, and when it was last in use: a repeat under a
-- key has to be the same to the byte at some providers.
CREATE TABLE request_recipes (
  submission_target text NOT NULL,
  gateway_url text NOT NULL,
  workspace text NOT NULL,
  recipe text NOT NULL,
  first_used_at text NOT NULL,
  last_used_at text NOT NULL,
  PRIMARY KEY (submission_target, gateway_url, workspace, recipe)
) STRICT, WITHOUT ROWID;

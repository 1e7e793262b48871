-- Reports on a target that workspaces share, answers to those who write STOP or
-- HELP, and topics of single steps.

-- Whom each workspace has written to through a target that it shares, because a reply may name no
-- message. `written_at` is the latest time.
CREATE TABLE shared_addressees (
  submission_target text NOT NULL,
  address text NOT NULL,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  written_at text NOT NULL,
  PRIMARY KEY (submission_target, address, workspace_id)
) STRICT, WITHOUT ROWID;

-- Receipts that turned out to be other workspaces' alone. These have them under the same id, and the
-- workspace that took them does not list them.
CREATE TABLE passed_receipts (
  workspace_id text NOT NULL,
  id text NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT, WITHOUT ROWID;

-- The receipt that an item answers. Such an item goes out although its recipient has just opted out:
-- it says so.
ALTER TABLE channel_outbox ADD COLUMN answers_receipt text;

-- What one step's messages are about, where that is not what its rule says.
ALTER TABLE workflow_steps ADD COLUMN topic text;

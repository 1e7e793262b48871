-- Seals: at a run's end, one Merkle root over its ledger and one over its receipts, signed.

-- Up to which event of its log the run is sealed, when to look whether more receipts came, and who
-- seals it until when. Runs that ended before are not sealed.
ALTER TABLE campaign_runs ADD COLUMN sealed_seq integer NOT NULL DEFAULT 0;
ALTER TABLE campaign_runs ADD COLUMN reseal_at text;
ALTER TABLE campaign_runs ADD COLUMN sealing_until text;
UPDATE campaign_runs SET sealed_seq = status_seq WHERE finished_at IS NOT NULL;
CREATE INDEX campaign_runs_unsealed ON campaign_runs (finished_at, id)
  WHERE finished_at IS NOT NULL AND sealed_seq < status_seq;
CREATE INDEX campaign_runs_to_reseal ON campaign_runs (reseal_at, id) WHERE reseal_at IS NOT NULL;

-- `salt` hides people in what leaves the house; it is the same for all seals of a run.
CREATE TABLE run_seals (
  run_id text NOT NULL,
  seal integer NOT NULL CHECK (seal > 0),
  document text NOT NULL,
  key_id text NOT NULL,
  signature blob NOT NULL,
  salt blob NOT NULL,
  PRIMARY KEY (run_id, seal)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER run_seals_unchanged BEFORE UPDATE ON run_seals
  BEGIN SELECT RAISE(ABORT, 'a seal never changes'); END;
CREATE TRIGGER run_seals_kept BEFORE DELETE ON run_seals
  BEGIN SELECT RAISE(ABORT, 'a seal never changes'); END;
CREATE TRIGGER run_seals_no_replace BEFORE INSERT ON run_seals
  WHEN EXISTS (SELECT 1 FROM run_seals s WHERE s.run_id = NEW.run_id AND s.seal = NEW.seal)
  BEGIN SELECT RAISE(ABORT, 'a seal never changes'); END;

-- The leaves under a seal's roots, a page of rows each, so that a changed row can be named. A later
-- seal has only the pages that are different.
CREATE TABLE sealed_pages (
  run_id text NOT NULL,
  tree text NOT NULL CHECK (tree IN ('ledger', 'receipts')),
  page integer NOT NULL,
  seal integer NOT NULL,
  leaves blob NOT NULL,
  PRIMARY KEY (run_id, tree, page, seal)
) STRICT;

-- The public halves of the keys that signed here.
CREATE TABLE evidence_keys (
  id text PRIMARY KEY,
  public_key blob NOT NULL CHECK (length(public_key) = 32),
  created_at text NOT NULL
) STRICT, WITHOUT ROWID;

-- Seals: at a run's end, one Merkle root over its ledger and one over its receipts, signed.

-- Up to which event of its log the run is sealed, when to look whether more receipts came, and who
-- seals it until when. Runs that ended before are not sealed.
ALTER TABLE campaign_runs
  ADD COLUMN sealed_seq bigint NOT NULL DEFAULT 0,
  ADD COLUMN reseal_at timestamptz,
  ADD COLUMN sealing_until timestamptz;
UPDATE campaign_runs SET sealed_seq = status_seq WHERE finished_at IS NOT NULL;
CREATE INDEX campaign_runs_unsealed ON campaign_runs (finished_at, id)
  WHERE finished_at IS NOT NULL AND sealed_seq < status_seq;
CREATE INDEX campaign_runs_to_reseal ON campaign_runs (reseal_at, id) WHERE reseal_at IS NOT NULL;

-- `salt` hides people in what leaves the house; it is the same for all seals of a run.
CREATE TABLE run_seals (
  run_id uuid NOT NULL,
  seal integer NOT NULL CHECK (seal > 0),
  document text NOT NULL,
  key_id text NOT NULL,
  signature bytea NOT NULL,
  salt bytea NOT NULL,
  PRIMARY KEY (run_id, seal)
);
CREATE TRIGGER run_seals_append_only BEFORE UPDATE OR DELETE ON run_seals
  FOR EACH ROW EXECUTE FUNCTION outrider_refuse('a seal never changes');
CREATE TRIGGER run_seals_not_truncated BEFORE TRUNCATE ON run_seals
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_refuse('seals are never truncated');

-- The leaves under a seal's roots, a page of rows each, so that a changed row can be named. A later
-- seal has only the pages that are different.
CREATE TABLE sealed_pages (
  run_id uuid NOT NULL,
  tree text NOT NULL CHECK (tree IN ('ledger', 'receipts')),
  page integer NOT NULL,
  seal integer NOT NULL,
  leaves bytea NOT NULL,
  PRIMARY KEY (run_id, tree, page, seal)
);
ALTER TABLE sealed_pages ALTER COLUMN leaves SET STORAGE EXTERNAL;

-- The public halves of the keys that signed here.
CREATE TABLE evidence_keys (
  id text PRIMARY KEY,
  public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
  created_at timestamptz NOT NULL
);

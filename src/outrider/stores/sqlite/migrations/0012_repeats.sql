-- A call that was abandoned and is made again is the same attempt. `repeats` counts the calls of the
-- item's attempt that were abandoned before the latest one; a new attempt begins at none. Whoever was
-- called again after a silence says at which target, and how long that was declared to remember.
ALTER TABLE channel_outbox ADD COLUMN repeats integer NOT NULL DEFAULT 0;
ALTER TABLE channel_outbox ADD COLUMN repeat_target text;
ALTER TABLE channel_outbox ADD COLUMN repeat_memory text;

-- A key cannot be widened here, so the table is made anew.
DROP VIEW submission_attempts;
CREATE TABLE history_anew (
  outbox_id text NOT NULL,
  attempt integer NOT NULL,
  repeat integer NOT NULL DEFAULT 0,
  fence integer NOT NULL,
  opened_at text NOT NULL,
  closed_at text NOT NULL,
  progress text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('rejected', 'error', 'abandoned', 'disproved')),
  reason text,
  error text,
  PRIMARY KEY (outbox_id, attempt, repeat)
) STRICT, WITHOUT ROWID;
INSERT INTO history_anew
SELECT outbox_id, attempt, 0, fence, opened_at, closed_at, progress, outcome, reason, error
  FROM attempt_history;
DROP TABLE attempt_history;
ALTER TABLE history_anew RENAME TO attempt_history;
CREATE TRIGGER attempt_history_no_update BEFORE UPDATE ON attempt_history
  BEGIN SELECT RAISE(ABORT, 'a closed attempt never changes'); END;
CREATE TRIGGER attempt_history_no_delete BEFORE DELETE ON attempt_history
  BEGIN SELECT RAISE(ABORT, 'a closed attempt is never deleted'); END;

CREATE VIEW submission_attempts AS
  SELECT outbox_id, attempt, fence, opened_at, closed_at, progress, outcome, reason, error,
         NULL AS provider_message_id, repeat
    FROM attempt_history
  UNION ALL
  SELECT id, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
         CASE WHEN attempt_closed_at IS NULL THEN NULL
              WHEN status IN ('sent', 'called', 'posted') THEN 'accepted'
              WHEN progress = 'ANSWERED' THEN 'rejected' ELSE 'error' END,
         reason, error, provider_message_id, repeats
    FROM channel_outbox
   WHERE attempt_opened_at IS NOT NULL;

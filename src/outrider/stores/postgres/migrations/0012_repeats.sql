-- A call that was abandoned and is made again is the same attempt. `repeats` counts the calls of the
-- item's attempt that were abandoned before the latest one; a new attempt begins at none. Whoever was
-- called again after a silence says at which target, and how long that was declared to remember.
ALTER TABLE channel_outbox ADD COLUMN repeats integer NOT NULL DEFAULT 0;
ALTER TABLE channel_outbox ADD COLUMN repeat_target text;
ALTER TABLE channel_outbox ADD COLUMN repeat_memory text;

ALTER TABLE attempt_history ADD COLUMN repeat integer NOT NULL DEFAULT 0;
ALTER TABLE attempt_history DROP CONSTRAINT attempt_history_pkey;
ALTER TABLE attempt_history ADD PRIMARY KEY (outbox_id, attempt, repeat);

CREATE OR REPLACE VIEW submission_attempts AS
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

-- The one function that writes a phase's state, its lifecycle event and its sequence, together.

-- name: lock_phases
SELECT phase, state, run_id::text, last_sequence FROM campaign_phases
 WHERE campaign_id = :campaign_id ORDER BY ordinal FOR NO KEY UPDATE;

-- name: controlled_phase
-- A phase as a control leaves it, and what its run waits for.
SELECT p.phase, p.state, p.run_id::text, p.last_sequence,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = p.run_id AND q.status = 'waiting')
  FROM campaign_phases p WHERE p.campaign_id = :campaign_id AND p.phase = :phase;

-- name: campaign_events_after
SELECT sequence, type, phase, payload, created_at FROM campaign_events
 WHERE campaign_id = :campaign_id AND sequence > :after
 ORDER BY sequence LIMIT :most;

-- name: campaign_sequences
SELECT id::text, last_sequence FROM campaigns
 WHERE id IN window(id uuid);

-- name: set_phase_direct
-- Outside the state machine, and therefore seen by the trigger.
UPDATE campaign_phases
   SET state = :state, bypass_caller = :caller, bypass_reason = :reason,
       finished_at = CASE WHEN :ends::boolean THEN :now::timestamptz END, updated_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: end_bypass
UPDATE campaign_phases
   SET bypass_caller = NULL, bypass_reason = NULL, last_sequence = :sequence, reason = :reason
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: running_runs
-- The runs of a campaign that are neither ended nor stopped: one, unless rows were changed by hand.
SELECT id::text, phase FROM campaign_runs
 WHERE campaign_id = :campaign_id AND (finished_at IS NULL) IS TRUE AND stopped_at IS NULL
   AND status IN ('queued', 'running');

-- name: lock_phase
SELECT state, run_id::text FROM campaign_phases WHERE campaign_id = :campaign_id AND phase = :phase
   FOR NO KEY UPDATE;

-- name: set_phase_state
-- Comes after its event: a trigger records a state that came without one.
UPDATE campaign_phases
   SET state = :state, run_id = :run_id, last_sequence = :sequence, reason = :reason,
       started_at = CASE WHEN :begins::boolean THEN :now ELSE started_at END,
       finished_at = CASE WHEN :ends::boolean THEN :now::timestamptz END,
       progress = CASE WHEN :begins THEN NULL ELSE progress END, updated_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: next_sequence
-- The counter on the campaign's row: commit order is sequence order.
UPDATE campaigns SET last_sequence = last_sequence + 1 WHERE id = :campaign_id
RETURNING last_sequence;

-- name: insert_campaign_event
INSERT INTO campaign_events (campaign_id, sequence, type, phase, payload, created_at)
VALUES (:campaign_id, :sequence, :type, :phase, :payload, :now);

-- Signals in a run's log: the decision on each, numbered in order of arrival.

-- name: signal_of_run
-- The decision on a signal, if there was one.
SELECT run_seq, type, payload, step_id FROM run_events
 WHERE run_id = :run_id AND signal_id = :signal_id;

-- name: next_signal
UPDATE campaign_runs SET signals = signals + 1 WHERE id = :run_id RETURNING signals;

-- name: refusals_of_run
SELECT refusals_began_at, refusals_recorded, refusals_unrecorded FROM campaign_runs WHERE id = :run_id;

-- name: note_refusals
UPDATE campaign_runs
   SET refusals_began_at = :since, refusals_recorded = :recorded, refusals_unrecorded = :unrecorded
 WHERE id = :run_id;

-- name: unrecorded_refusals
-- Runs whose period of only counting refusals is over.
SELECT id::text FROM campaign_runs
 WHERE refusals_unrecorded > 0 AND refusals_began_at <= :since
 LIMIT :most;

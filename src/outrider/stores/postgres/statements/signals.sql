-- Signals to runs, in Postgres's dialect.

-- name: refusals_of_run
SELECT refusals_began_at, refusals_recorded, refusals_unrecorded FROM campaign_runs WHERE id = :run_id;

-- name: note_refusals
UPDATE campaign_runs
   SET refusals_began_at = :since, refusals_recorded = :recorded, refusals_unrecorded = :unrecorded
 WHERE id = :run_id;

-- name: unrecorded_refusals
-- Runs where the time is over in which refusals were only counted.
SELECT id::text FROM campaign_runs
 WHERE refusals_unrecorded > 0 AND refusals_began_at <= :since
 LIMIT :most;

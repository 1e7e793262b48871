-- Rollouts: who belongs to which step of a launch, and how far its steps have come.

-- name: draws_at_ranks
-- The draws of the members at these ranks, in the order of all draws.
SELECT ranked.rank, ranked.draw
  FROM (SELECT drawn.draw, row_number() OVER (ORDER BY drawn.draw) AS rank
          FROM (SELECT outrider_draw(:salt::text, recipient_id) AS draw FROM audience_members
                 WHERE campaign_id = :campaign_id) drawn) ranked
 WHERE ranked.rank IN window(rank int);

-- name: count_drawn_batches
-- As `count_batches`, for each of these ranges of draws.
WITH item AS window(share int, first_draw bigint, last_draw bigint),
drawn AS MATERIALIZED (
  SELECT position / :batch_size::int AS batch, message_id,
         outrider_draw(:salt::text, recipient_id) AS draw
    FROM audience_members WHERE campaign_id = :campaign_id
)
SELECT drawn.batch, drawn.message_id, count(*), item.share
  FROM drawn JOIN item ON drawn.draw BETWEEN item.first_draw AND item.last_draw
 GROUP BY drawn.batch, drawn.message_id, item.share ORDER BY drawn.batch;

-- name: insert_rollout_steps
INSERT INTO rollout_steps (run_id, step, percent, hold_seconds, items, released_at)
SELECT :run_id, step, percent, hold_seconds, items, released_at
  FROM window(step int, percent float8, hold_seconds float8, items int,
              released_at timestamptz) AS item;

-- name: rollout_steps_of_runs
SELECT run_id::text, step, percent, hold_seconds, items, released_at, released_by, ended_at,
       passed_at, halted_for
  FROM rollout_steps WHERE run_id IN window(id uuid) ORDER BY rollout_steps.run_id, step;

-- name: open_rollouts
-- The step that each run is at, unless somebody has paused the run. A job whose items wait for a
-- verdict only has no due time: the step does not wait for those.
SELECT s.run_id::text, r.tenant_id::text, r.workspace_id::text, r.campaign_id::text, s.step,
       s.hold_seconds, s.items, s.ended_at, s.halted_for,
       EXISTS (SELECT 1 FROM rollout_steps l WHERE l.run_id = s.run_id AND l.step > s.step),
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = s.run_id AND j.rollout_step = s.step AND j.outcome IS NULL
                  AND NOT (j.status = 'queued' AND j.run_at IS NULL)),
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = s.run_id AND j.rollout_step = s.step + 1 AND j.awaits_winner
                  AND j.outcome IS NULL)
  FROM rollout_steps s JOIN campaign_runs r ON r.id = s.run_id
  JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
 WHERE s.released_at IS NOT NULL AND s.passed_at IS NULL AND s.run_id > :after
   AND r.finished_at IS NULL AND r.stopped_at IS NULL AND r.approved_at IS NOT NULL
   AND p.run_id = r.id AND p.state = 'in_progress'
 ORDER BY s.run_id LIMIT :most;

-- name: close_rollouts
-- Of runs that have ended, whatever step they were at.
UPDATE rollout_steps SET ended_at = coalesce(ended_at, :now::timestamptz), passed_at = :now
 WHERE released_at IS NOT NULL AND passed_at IS NULL
   AND (SELECT r.finished_at FROM campaign_runs r WHERE r.id = rollout_steps.run_id) IS NOT NULL;

-- name: release_step_jobs
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND rollout_step = :step AND awaits_step AND outcome IS NULL
   {postgres: ORDER BY id FOR NO KEY UPDATE}
)
UPDATE job_queue AS j
   SET awaits_step = false, paused = false, run_at = greatest(run_at, :now::timestamptz),
       updated_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: release_step
UPDATE rollout_steps SET released_at = :now, released_by = :released_by
 WHERE run_id = :run_id AND step = :step AND released_at IS NULL
RETURNING percent, items;

-- name: pass_steps
-- Everything before this step.
UPDATE rollout_steps SET passed_at = :now
 WHERE run_id = :run_id AND step < :step AND passed_at IS NULL;

-- name: end_step
UPDATE rollout_steps SET ended_at = :now
 WHERE run_id = :run_id AND step = :step AND ended_at IS NULL
RETURNING percent, items;

-- name: halt_step
UPDATE rollout_steps SET halted_for = :halted_for WHERE run_id = :run_id AND step = :step;

-- name: rollout_goes_on
SELECT 1 FROM rollout_steps s JOIN campaign_runs r ON r.id = s.run_id
  JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
 WHERE s.run_id = :run_id AND s.step = :step AND s.released_at IS NOT NULL AND s.passed_at IS NULL
   AND r.finished_at IS NULL AND r.stopped_at IS NULL AND r.approved_at IS NOT NULL
   AND p.run_id = r.id AND p.state = 'in_progress';

-- name: step_without_winner
SELECT min(rollout_step) FROM job_queue
 WHERE run_id = :run_id AND awaits_winner AND outcome IS NULL
HAVING count(*) > 0;

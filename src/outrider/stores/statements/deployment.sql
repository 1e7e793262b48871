-- Deploying a run of a phase: the run and its jobs, written as queued, and the phase's start.

-- name: exclude_unsettled
-- Items in doubt, and items that a verdict has just requeued: neither has an outcome yet. And what
-- the provider accepted after it had been settled otherwise.
INSERT INTO retry_exclusions (campaign_id, run_id, outbox_id)
SELECT :campaign_id::uuid, :run_id::uuid, id FROM channel_outbox
 WHERE run_id = :previous_run_id
   AND (status = 'queued'
        OR (status IN ('failed', 'skipped')
            AND EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = channel_outbox.id)));

-- name: take_left_out
-- What earlier retries left out as in doubt, and a verdict has since made part of the remainder.
UPDATE retry_exclusions SET taken_by = :run_id
 WHERE campaign_id = :campaign_id AND taken_by IS NULL
   AND EXISTS (SELECT 1 FROM channel_outbox o
                WHERE o.id = retry_exclusions.outbox_id
                  AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead'))))
   AND NOT EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = retry_exclusions.outbox_id);

-- name: forget_left_out
-- Everyone receives it again, including those left out before.
UPDATE retry_exclusions SET taken_by = :run_id
 WHERE campaign_id = :campaign_id AND taken_by IS NULL;

-- name: count_remainder
-- The remainder of a run, job by job: what failed, and what a stop cancelled; minus what this retry
-- leaves out, plus what earlier ones left out and it takes up.
-- postgres:
SELECT j.id::text, j.asset_id::text, j.first_position, j.last_position, c.items, j.rollout_step,
       j.first_choice, j.last_choice, j.awaits_winner
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS items FROM channel_outbox o
    WHERE o.run_id = j.run_id AND o.job_id = j.id
      AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
      AND NOT EXISTS (SELECT 1 FROM retry_exclusions x
                       WHERE x.run_id = :run_id AND x.outbox_id = o.id)) c
 WHERE j.run_id = :previous_run_id AND c.items > 0
UNION ALL
SELECT j.id::text, j.asset_id::text, j.first_position, j.last_position, count(*), j.rollout_step,
       j.first_choice, j.last_choice, j.awaits_winner
  FROM retry_exclusions x
 CROSS JOIN LATERAL (SELECT o.job_id FROM channel_outbox o WHERE o.id = x.outbox_id LIMIT 1) o
  JOIN job_queue j ON j.id = o.job_id
 WHERE x.taken_by = :run_id
 GROUP BY j.id;
-- sqlite:
SELECT j.id, j.asset_id, j.first_position, j.last_position, count(*), j.rollout_step,
       j.first_choice, j.last_choice, j.awaits_winner
  FROM job_queue j CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 WHERE j.run_id = :previous_run_id
   AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
   AND NOT EXISTS (SELECT 1 FROM retry_exclusions x
                    WHERE x.run_id = :run_id AND x.outbox_id = o.id)
 GROUP BY j.id
UNION ALL
SELECT j.id, j.asset_id, j.first_position, j.last_position, count(*), j.rollout_step,
       j.first_choice, j.last_choice, j.awaits_winner
  FROM retry_exclusions x CROSS JOIN channel_outbox o ON o.id = x.outbox_id
  CROSS JOIN job_queue j ON j.id = o.job_id
 WHERE x.taken_by = :run_id
 GROUP BY j.id;

-- name: insert_contracts
-- Content-addressed: the same contract is stored once, however often it is used.
INSERT INTO contract_snapshots (sha256, submission_target, document, created_at)
SELECT sha256, submission_target, document::json, :now
  FROM window(sha256 text, submission_target text, document text) AS item WHERE true
ON CONFLICT (sha256) DO NOTHING;

-- name: contracts_by_sha256
SELECT id, sha256 FROM contract_snapshots WHERE sha256 IN window(sha256 text);

-- name: insert_run
INSERT INTO campaign_runs (id, tenant_id, workspace_id, campaign_id, phase, channel, intended,
                           scheduled_for, retry_of, plan_version, approved_at, local_launch,
                           created_at)
VALUES (:id, :tenant_id, :workspace_id, :campaign_id, :phase, :channel, :intended,
        :scheduled_for, :retry_of, :plan_version, :approved_at, :local_launch, :now);

-- name: insert_jobs
INSERT INTO job_queue (id, tenant_id, workspace_id, run_id, job_type, submission_target, asset_id,
                       contract_id, fallback_contract_id, first_position, last_position,
                       item_count, retry_job_id, detail, mode, queue_group, max_attempts,
                       logical_attempts_max, retry_delay_seconds, run_at, paused, created_at,
                       updated_at, rollout_step, first_draw, last_draw, awaits_step, first_choice,
                       last_choice, awaits_winner)
SELECT id, :tenant_id, :workspace_id, :run_id, job_type, submission_target, asset_id,
       contract_id, fallback_contract_id, first_position, last_position, item_count,
       retry_job_id, detail::json, mode, mode || '/' || :workspace_id::uuid || '/'
       || submission_target, :max_attempts, :logical_attempts_max, :retry_delay_seconds, :run_at,
       :held OR awaits_step, :now, :now, rollout_step, first_draw, last_draw, awaits_step,
       first_choice, last_choice, awaits_winner
  FROM window(id uuid, job_type text, submission_target text, asset_id uuid, contract_id int,
              fallback_contract_id int, first_position int, last_position int, item_count int,
              retry_job_id uuid, detail text, mode text, rollout_step int, first_draw bigint,
              last_draw bigint, awaits_step boolean, first_choice bigint, last_choice bigint,
              awaits_winner boolean) AS item;

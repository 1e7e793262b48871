-- Progress of phases in progress: which are due for a report, and what it says.

-- name: claim_progress
-- Phases whose progress was not reported for a while; the caller reports it, and no other process
-- meanwhile.
WITH due AS MATERIALIZED (
  SELECT campaign_id, phase FROM campaign_phases
   WHERE state IN ('in_progress', 'paused') AND state = 'in_progress'
     AND (progress_at IS NULL OR progress_at <= :told_before)
   ORDER BY progress_at NULLS FIRST LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE campaign_phases AS p SET progress_at = :now
  FROM due WHERE p.campaign_id = due.campaign_id AND p.phase = due.phase
RETURNING p.campaign_id::text, p.phase, p.run_id::text, p.progress;

-- name: save_progress
UPDATE campaign_phases SET progress = :progress, progressed_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: prune_progress
DELETE FROM campaign_events
 WHERE campaign_id = :campaign_id AND phase = :phase AND type = 'campaign_progress'
   AND sequence < :before;

-- Reconciling a phase and its run after a manual change in the database: one transaction each.

-- name: disagreeing_phases
-- Phases in flight whose run has ended, was stopped or never existed.
SELECT p.campaign_id::text, p.phase
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
 WHERE p.state IN ('in_progress', 'paused')
   AND (r.id IS NULL OR r.status IN ('completed', 'partial', 'failed') OR r.stopped_at IS NOT NULL)
   AND (p.campaign_id, p.phase) > (:after_campaign_id, :after_phase)
 ORDER BY p.campaign_id, p.phase LIMIT :most;

-- name: runs_left_running
-- Runs that are neither ended nor stopped, while their phase is not in flight, or has another run.
SELECT r.id::text, r.campaign_id::text, r.phase
  FROM campaign_runs r
  LEFT JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
 WHERE r.finished_at IS NULL AND r.stopped_at IS NULL AND r.status IN ('queued', 'running')
   AND (p.state IN ('in_progress', 'paused') AND p.run_id = r.id) IS NOT TRUE
   AND r.id > :after
 ORDER BY r.id LIMIT :most;

-- name: phase_beside_run
-- A phase, its current run, and the last event of it in its stream.
SELECT c.tenant_id::text, c.workspace_id::text, p.state, p.run_id::text, r.status,
       r.stopped_at IS NOT NULL, r.approved_at IS NOT NULL,
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = p.run_id AND j.outcome IS NULL AND j.paused
                  AND NOT j.awaits_step),
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = p.run_id AND j.outcome IS NULL AND j.paused = false),
       (SELECT e.type FROM campaign_events e
         WHERE e.campaign_id = p.campaign_id AND e.sequence = p.last_sequence)
  FROM campaign_phases p JOIN campaigns c ON c.id = p.campaign_id
  LEFT JOIN campaign_runs r ON r.id = p.run_id
 WHERE p.campaign_id = :campaign_id AND p.phase = :phase;

-- name: count_bypasses
SELECT count(*) FROM campaign_audit_log WHERE event = 'phase.transition_bypassed';

-- name: unread_bypasses_after
SELECT u.id::text, u.campaign_id::text, u.phase,
       (SELECT a.detail FROM campaign_audit_log a WHERE a.id = u.id)
  FROM unread_bypasses u
 WHERE u.id > :after ORDER BY u.id LIMIT :most;

-- name: forget_bypasses
DELETE FROM unread_bypasses
 WHERE id IN window(id uuid);

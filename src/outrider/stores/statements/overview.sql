-- A list of campaigns with the state of each, in a fixed number of statements.

-- name: campaigns_floor
-- Where a page of this many campaigns ends, if there are more.
SELECT c.id::text FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id AND c.id < :before
 ORDER BY c.id DESC LIMIT 1 OFFSET :scanned::int - 1;

-- name: campaigns_overview
-- The state is the one of domain/campaign_states.py.
SELECT c.id::text, c.name, c.audience_size, c.last_sequence, c.created_at
  FROM campaigns c
 WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id
   AND c.id < :before AND c.id >= :floor
   AND (:words::text IS NULL OR c.id::text = :words OR strpos(lowered(c.name), :words) > 0)
   AND (:state::text IS NULL OR :state = (
     SELECT CASE WHEN bool_or(p.state = 'paused') THEN 'paused'
                 WHEN bool_or(p.state = 'in_progress') THEN 'in_progress'
                 WHEN bool_or(p.state = 'failed') THEN 'failed'
                 WHEN bool_and(p.state = 'completed') THEN 'completed'
                 WHEN bool_and(p.state = 'not_started') THEN 'not_started'
                 ELSE 'ready' END
       FROM campaign_phases p WHERE p.campaign_id = c.id))
 ORDER BY c.id DESC LIMIT :most;

-- name: phases_of_campaigns
-- Includes the last reported progress of a phase in progress, and the final result of its run.
SELECT p.campaign_id::text, p.phase, p.state, p.run_id::text, p.started_at, p.progress::text,
       r.status, r.intended, e.payload::text, p.reason,
       CASE WHEN r.scheduled_for > r.created_at THEN r.scheduled_for END AS scheduled_for,
       r.retry_of::text
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
  LEFT JOIN run_events e
         ON e.run_id = r.id AND e.run_seq = r.status_seq AND r.finished_at IS NOT NULL
 WHERE p.campaign_id IN window(id uuid)
 ORDER BY p.campaign_id, p.ordinal;

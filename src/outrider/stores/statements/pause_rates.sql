-- Runs that may have to be paused, because too much of them bounced or was complained of.

-- name: runs_that_got_worse
-- Under way, and something of them bounced or was complained of. In the order of the index of what is
-- under way, which is the one to read.
SELECT r.tenant_id::text, r.workspace_id::text, r.id::text FROM campaign_runs r
 WHERE r.finished_at IS NULL
   AND EXISTS (SELECT 1 FROM run_deliveries d
                WHERE d.run_id = r.id AND d.state IN ('bounced', 'complained') AND d.items > 0)
 ORDER BY r.tenant_id, r.workspace_id LIMIT :most;

-- What a scrape counts: bypasses, doubts, and jobs that have not ended, over all tenants.

-- name: count_doubted
SELECT count(*) FROM channel_outbox WHERE doubted_at IS NOT NULL;

-- name: count_open_jobs
-- Only what has not ended, which has its own index.
SELECT status, count(*) FROM job_queue WHERE outcome IS NULL
 GROUP BY status ORDER BY status;

-- name: oldest_due_by_target
-- Of jobs and lanes that wait for a worker.
SELECT j.submission_target, min(j.run_at) AS due_at FROM job_queue j
 WHERE j.status = 'queued' AND j.paused = false AND j.run_at <= :now
 GROUP BY unindexed(j.submission_target) LIMIT :most;

-- name: count_doubts_by_settles
SELECT settles, count(*)::int FROM (
  SELECT (SELECT c.settles FROM doubt_checks c WHERE c.outbox_id = o.id) AS settles
    FROM channel_outbox o WHERE o.doubted_at IS NOT NULL) doubts
 GROUP BY settles ORDER BY settles;

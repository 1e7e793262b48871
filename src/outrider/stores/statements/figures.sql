-- What a scrape counts: bypasses, doubts, and jobs that have not ended, over all tenants.

-- name: count_doubted
SELECT count(*) FROM channel_outbox WHERE doubted_at IS NOT NULL;

-- name: count_open_jobs
-- Only what has not ended, which has its own index.
SELECT status, count(*) FROM job_queue WHERE outcome IS NULL
 GROUP BY status ORDER BY status;

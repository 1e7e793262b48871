-- Reading the jobs of a run: in pages, and counted by status and reason.

-- name: jobs_page
-- Jobs carry their counts; for one that ended with items in doubt, the rows are counted.
SELECT j.id::text, j.job_type, j.submission_target, j.status, j.outcome, j.attempts, j.item_count,
       CASE WHEN j.unended = 0 THEN j.sent ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status IN ('sent', 'called', 'posted')) END,
       CASE WHEN j.unended = 0 THEN j.failed ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'failed') END,
       CASE WHEN j.unended = 0 THEN j.skipped ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'skipped') END,
       j.paused, j.cancelled, j.last_error, j.run_at, j.result, j.updated_at
  FROM job_queue j WHERE j.run_id = :run_id AND j.id > :after ORDER BY j.id LIMIT :most;

-- name: count_jobs
SELECT status, outcome, count(*), sum(attempts), max(last_error) FROM job_queue
 WHERE run_id = :run_id GROUP BY 1, 2 ORDER BY 1, 2;

-- name: count_reasons
SELECT status, reason, count(*) FROM channel_outbox
 WHERE run_id = :run_id AND reason IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2;

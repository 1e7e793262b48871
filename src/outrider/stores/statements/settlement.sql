-- Settling a job, and with the last job its run and its phase, in one transaction.

-- name: lock_job
SELECT status, fence, item_count, attempts, max_attempts, cancelled
  FROM job_queue WHERE id = :job_id
   FOR NO KEY UPDATE;

-- name: tally_job
SELECT count(*) FILTER (WHERE status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE status = 'failed'),
       count(*) FILTER (WHERE status = 'skipped'),
       count(*) FILTER (WHERE doubted_at IS NOT NULL),
       count(*) FILTER (WHERE status = 'queued' AND doubted_at IS NULL
                          AND attempt_opened_at IS NOT NULL),
       count(*) FILTER (WHERE status = 'queued' AND doubted_at IS NULL
                          AND attempt_opened_at IS NULL),
       min(next_attempt_at) AS next_attempt_at,
       count(*) FILTER (WHERE (reason = 'cancelled' AND status IN ('failed', 'skipped'))
                          OR (reason = 'job_dead' AND status = 'skipped'))
  FROM channel_outbox WHERE run_id = :run_id AND job_id = :job_id;

-- name: finish_job
UPDATE job_queue SET status = :status, outcome = :outcome, sent = :sent, failed = :failed,
       skipped = :skipped, unended = :unended, result = :result, run_at = NULL, locked_by = NULL,
       locked_at = NULL, heartbeat_at = NULL, lease_expires_at = NULL, updated_at = :now
 WHERE id = :job_id;

-- name: run_has_unfinished_jobs
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND outcome IS NULL);

-- name: run_outcomes
SELECT DISTINCT outcome FROM job_queue WHERE run_id = :run_id;

-- name: finish_run
UPDATE campaign_runs SET status = :status, finished_at = :now, status_seq = :status_seq
 WHERE id = :run_id;

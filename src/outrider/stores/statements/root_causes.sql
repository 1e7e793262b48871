-- Why a step or a run failed, in words and by category, from a sample of its failures.

-- name: failure_sample
-- Why items of a run failed: the reasons of a sample of them, each with one of its errors.
SELECT reason, min(error), count(*)::int
  FROM (SELECT reason, error FROM channel_outbox
         WHERE run_id = :run_id AND status = 'failed' LIMIT :most) failed
 GROUP BY reason;

-- name: failure_sample_of_job
SELECT reason, min(error), count(*)::int
  FROM (SELECT reason, error FROM channel_outbox
         WHERE run_id = :run_id AND job_id = :job_id AND status = 'failed' LIMIT :most) failed
 GROUP BY reason;

-- name: failed_job_of_run
-- One of the failed jobs, preferably a dead one, and how many there are.
SELECT id::text, status, (SELECT count(*) FROM job_queue f
                        WHERE f.run_id = :run_id AND f.outcome = 'failed')
  FROM job_queue WHERE run_id = :run_id AND outcome = 'failed'
 ORDER BY status, job_queue.id LIMIT 1;

-- name: last_error_of_job
SELECT last_error FROM job_queue WHERE id = :job_id;

-- The accounting of runs: what was intended, and its outcome.

-- name: sum_jobs_of_runs
-- The outcomes of settled jobs, and how many items the others have.
SELECT run_id::text,
       coalesce(sum(item_count) FILTER (WHERE outcome IS NULL OR unended > 0), 0)::int,
       coalesce(sum(sent) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(failed) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int,
       coalesce(sum(skipped) FILTER (WHERE outcome IS NOT NULL AND unended = 0), 0)::int
  FROM job_queue
 WHERE run_id IN window(id uuid)
 GROUP BY run_id;

-- name: count_unfinished_rows_of_runs
-- The rows of jobs that have not settled, as `count_unfinished_rows` counts them for one run.
-- postgres:
SELECT j.run_id::text, sum(c.reserved)::int, sum(c.queued)::int, sum(c.doubted)::int,
       sum(c.sent)::int, sum(c.failed)::int, sum(c.skipped)::int
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS reserved,
          count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL) AS queued,
          count(*) FILTER (WHERE o.doubted_at IS NOT NULL) AS doubted,
          count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')) AS sent,
          count(*) FILTER (WHERE o.status = 'failed') AS failed,
          count(*) FILTER (WHERE o.status = 'skipped') AS skipped
     FROM channel_outbox o WHERE o.run_id = j.run_id AND o.job_id = j.id) c
 WHERE j.run_id IN window(id uuid)
   AND (j.outcome IS NULL OR j.unended > 0)
 GROUP BY j.run_id;
-- sqlite:
SELECT j.run_id, count(*),
       count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL),
       count(*) FILTER (WHERE o.doubted_at IS NOT NULL),
       count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE o.status = 'failed'),
       count(*) FILTER (WHERE o.status = 'skipped')
  FROM window(id uuid) AS item
 CROSS JOIN job_queue j ON j.run_id = item.id AND (j.outcome IS NULL OR j.unended > 0)
 CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 GROUP BY j.run_id;

-- name: run_throughput
-- When jobs settled, and their outcomes.
SELECT least(greatest(
         {postgres: floor(extract(epoch FROM updated_at - :begin::timestamptz)
                          / :bucket_seconds::float8)::int}
         {sqlite: CAST((unixepoch(updated_at, 'subsec') - unixepoch(:begin, 'subsec'))
                       / :bucket_seconds AS integer)},
         0), :last_bucket::int),
       sum(sent)::int, sum(failed)::int, sum(skipped)::int
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL
 GROUP BY 1 ORDER BY 1;

-- name: count_finished_jobs
-- Those that ended with every item; jobs that ended with some in doubt are counted by their rows.
SELECT coalesce(sum(item_count), 0), coalesce(sum(sent), 0), coalesce(sum(failed), 0),
       coalesce(sum(skipped), 0)
  FROM job_queue WHERE run_id = :run_id AND outcome IS NOT NULL AND unended = 0;

-- name: count_unfinished_jobs
SELECT coalesce(sum(item_count), 0) FROM job_queue
 WHERE run_id = :run_id AND (outcome IS NULL OR unended > 0);

-- name: count_unfinished_rows
-- The rows of jobs that have items without an outcome; other jobs carry their counts. LATERAL in
-- Postgres and CROSS JOIN in SQLite fix the join order, so that no plan can read the rows of the
-- whole run.
-- postgres:
SELECT coalesce(sum(c.reserved), 0)::int, coalesce(sum(c.queued), 0)::int,
       coalesce(sum(c.doubted), 0)::int, coalesce(sum(c.sent), 0)::int,
       coalesce(sum(c.failed), 0)::int, coalesce(sum(c.skipped), 0)::int
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS reserved,
          count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL) AS queued,
          count(*) FILTER (WHERE o.doubted_at IS NOT NULL) AS doubted,
          count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')) AS sent,
          count(*) FILTER (WHERE o.status = 'failed') AS failed,
          count(*) FILTER (WHERE o.status = 'skipped') AS skipped
     FROM channel_outbox o WHERE o.run_id = j.run_id AND o.job_id = j.id) c
 WHERE j.run_id = :run_id AND (j.outcome IS NULL OR j.unended > 0);
-- sqlite:
SELECT count(*),
       count(*) FILTER (WHERE o.status = 'queued' AND o.doubted_at IS NULL),
       count(*) FILTER (WHERE o.doubted_at IS NOT NULL),
       count(*) FILTER (WHERE o.status IN ('sent', 'called', 'posted')),
       count(*) FILTER (WHERE o.status = 'failed'),
       count(*) FILTER (WHERE o.status = 'skipped')
  FROM job_queue j CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 WHERE j.run_id = :run_id AND (j.outcome IS NULL OR j.unended > 0);

-- The final outcome of every message of a launch, over all its retries.

-- name: launch_chains
-- Each of these runs, and before it the runs whose remainder it took up, latest first; for the
-- earlier ones, their outcome according to the event that ended them.
WITH RECURSIVE chain (last_id, id, retry_of, intended, ended_seq, depth) AS (
  SELECT r.id, r.id, r.retry_of, r.intended, NULL::bigint, 0 FROM campaign_runs r
   WHERE r.id IN window(id uuid)
  UNION ALL
  SELECT c.last_id, r.id, r.retry_of, r.intended,
         CASE WHEN r.finished_at IS NOT NULL THEN r.status_seq END, c.depth + 1
    FROM chain c
   {sqlite: CROSS JOIN campaign_runs r ON r.id = c.retry_of}
   {postgres: CROSS JOIN LATERAL (SELECT * FROM campaign_runs WHERE id = c.retry_of LIMIT 1) r}
   WHERE c.depth < :longest
)
SELECT c.last_id::text, c.id::text, c.intended, e.payload::text
  FROM chain c
  {sqlite: LEFT JOIN run_events e ON e.run_id = c.id AND e.run_seq = c.ended_seq}
  {postgres: LEFT JOIN LATERAL (SELECT payload FROM run_events
                                 WHERE run_id = c.id AND run_seq = c.ended_seq LIMIT 1) e ON true}
 ORDER BY c.last_id, c.depth;

-- name: count_left_failed
-- Of what retries left out, by campaign, what has failed since and no later run took up.
SELECT x.campaign_id::text, count(*) FROM retry_exclusions x JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id IN window(id uuid) AND x.taken_by IS NULL AND o.status = 'failed'
 GROUP BY x.campaign_id;

-- name: still_left_out
-- Of these items, those that a retry left out and no later run took up.
SELECT outbox_id::text FROM retry_exclusions
 WHERE campaign_id = :campaign_id AND taken_by IS NULL
   AND outbox_id IN window(id uuid);

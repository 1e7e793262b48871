-- A/B variants: what became of each, and the winners.

-- name: winners_of_run
SELECT message_id, variant, decided_by, decided_at FROM run_winners
 WHERE run_id = :run_id ORDER BY message_id;

-- name: messages_without_winner
-- Of each run, what its last step cannot be sent without.
SELECT DISTINCT j.run_id::text, a.message_id
  FROM job_queue j JOIN assets a ON a.id = j.asset_id
 WHERE j.run_id IN window(id uuid) AND j.awaits_winner AND j.outcome IS NULL
 ORDER BY 1, 2;

-- name: insert_winner
INSERT INTO run_winners (run_id, message_id, asset_id, variant, decided_by, decided_at)
VALUES (:run_id, :message_id, :asset_id, :variant, :decided_by, :now);

-- name: send_winner
-- All variants of a message have its channel and its target, so the contract stays.
WITH mine AS MATERIALIZED (
  SELECT j.id FROM job_queue j JOIN assets a ON a.id = j.asset_id
   WHERE j.run_id = :run_id AND j.awaits_winner AND a.message_id = :message_id
   {postgres: ORDER BY j.id FOR NO KEY UPDATE OF j}
)
UPDATE job_queue AS j SET asset_id = :asset_id, awaits_winner = false, updated_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: variant_items
-- What of each variant was assigned by draw, in a run and those that it continues.
WITH RECURSIVE lineage (id, retry_of) AS (
  SELECT id, retry_of FROM campaign_runs WHERE id = :run_id
  UNION
  SELECT r.id, r.retry_of
    FROM lineage
   {sqlite: JOIN campaign_runs r ON r.id = lineage.retry_of}
   {postgres: CROSS JOIN LATERAL (SELECT id, retry_of FROM campaign_runs
                                   WHERE id = lineage.retry_of LIMIT 1) r}
)
SELECT j.asset_id::text, sum(CASE WHEN j.run_id = :run_id THEN j.item_count ELSE 0 END)::int,
       sum(CASE WHEN j.outcome IS NOT NULL AND j.unended = 0 THEN j.sent
                ELSE (SELECT count(*) FROM channel_outbox o
                       WHERE o.run_id = j.run_id AND o.job_id = j.id
                         AND o.status IN ('sent', 'called', 'posted')) END)::int,
       sum(CASE WHEN j.run_id <> :run_id THEN 0
                WHEN j.outcome IS NOT NULL AND j.unended = 0 THEN j.failed
                ELSE (SELECT count(*) FROM channel_outbox o
                       WHERE o.run_id = j.run_id AND o.job_id = j.id
                         AND o.status = 'failed') END)::int,
       sum(CASE WHEN j.run_id <> :run_id THEN 0
                WHEN j.outcome IS NOT NULL AND j.unended = 0 THEN j.skipped
                ELSE (SELECT count(*) FROM channel_outbox o
                       WHERE o.run_id = j.run_id AND o.job_id = j.id
                         AND o.status = 'skipped') END)::int
  FROM lineage
 {sqlite: CROSS JOIN job_queue j ON j.run_id = lineage.id}
 {postgres: CROSS JOIN LATERAL (
   SELECT * FROM job_queue t WHERE t.run_id = lineage.id OFFSET 0) j}
 WHERE j.first_choice IS NOT NULL
 GROUP BY j.asset_id;

-- name: variant_deliveries
-- What receipts say of the same items.
WITH RECURSIVE lineage (id, retry_of) AS (
  SELECT id, retry_of FROM campaign_runs WHERE id = :run_id
  UNION
  SELECT r.id, r.retry_of
    FROM lineage
   {sqlite: JOIN campaign_runs r ON r.id = lineage.retry_of}
   {postgres: CROSS JOIN LATERAL (SELECT id, retry_of FROM campaign_runs
                                   WHERE id = lineage.retry_of LIMIT 1) r}
)
SELECT j.asset_id::text, d.state, count(*)
  FROM lineage
 {sqlite: CROSS JOIN job_queue j ON j.run_id = lineage.id}
 {sqlite: CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id}
 {sqlite: CROSS JOIN deliveries d ON d.outbox_id = o.id}
 {postgres: CROSS JOIN LATERAL (
   SELECT * FROM job_queue t WHERE t.run_id = lineage.id OFFSET 0) j
 CROSS JOIN LATERAL (
   SELECT id, status FROM channel_outbox i
    WHERE i.run_id = j.run_id AND i.job_id = j.id OFFSET 0) o
 CROSS JOIN LATERAL (SELECT state FROM deliveries e WHERE e.outbox_id = o.id LIMIT 1) d}
 WHERE j.first_choice IS NOT NULL AND o.status IN ('sent', 'called', 'posted')
 GROUP BY j.asset_id, d.state ORDER BY 1, 2;

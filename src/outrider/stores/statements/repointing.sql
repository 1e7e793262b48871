-- The targets of a run's open jobs, and moving what no provider can have to another address.

-- name: contracts_of_run
-- Those of its open jobs: how many of these wait, including to be requeued, and how many are held.
SELECT contract_id, max(own), count(*) FILTER (WHERE status <> 'locked'),
       count(*) FILTER (WHERE status = 'locked')
  FROM (SELECT contract_id, 1 AS own, status FROM job_queue
         WHERE run_id = :run_id AND outcome IS NULL AND contract_id IS NOT NULL
        UNION ALL
        SELECT fallback_contract_id, 0, status FROM job_queue
         WHERE run_id = :run_id AND outcome IS NULL
           AND fallback_contract_id IS NOT NULL) open_jobs
 GROUP BY contract_id ORDER BY contract_id;

-- name: repoint_jobs
-- Only open jobs without a holder: a worker keeps to the contract that it claimed its job with.
UPDATE job_queue
   SET contract_id = CASE contract_id WHEN :old_id::integer THEN :new_id::integer ELSE contract_id END,
       fallback_contract_id =
         CASE fallback_contract_id WHEN :old_id::integer THEN :new_id::integer
                                   ELSE fallback_contract_id END,
       updated_at = :now
 WHERE id IN (SELECT j.id FROM job_queue j
               WHERE j.run_id = :run_id AND j.outcome IS NULL AND j.status <> 'locked'
                 AND (j.contract_id = :old_id OR j.fallback_contract_id = :old_id)
               ORDER BY j.id LIMIT :most FOR UPDATE)
RETURNING id::text;

-- name: repoint_items
-- The items of these jobs that no provider can have; what may have arrived keeps its contract, and is
-- asked about where it was.
UPDATE channel_outbox SET contract_id = :new_id, updated_at = :now
 WHERE run_id = :run_id AND job_id IN window(id uuid)
   AND contract_id = :old_id AND status = 'queued' AND NOT maybe_received
   AND attempt_opened_at IS NULL AND doubted_at IS NULL
RETURNING id;

-- name: count_items_kept
-- Waiting items of the run that keep their contract.
SELECT count(*) FROM channel_outbox
 WHERE run_id = :run_id AND contract_id = :contract_id AND status = 'queued';

-- Policy holds: how many members of a job wait for a policy, and for what.

-- name: note_holds
INSERT INTO policy_holds AS h (run_id, job_id, waits_for, waiting, items, since, until)
SELECT :run_id, :job_id, item.waits_for, item.waiting, item.waiting, :now, :until
  FROM window(waits_for text, waiting int) AS item
 {sqlite: WHERE true}
ON CONFLICT (run_id, job_id, waits_for) DO UPDATE
   SET waiting = excluded.waiting, items = greatest(h.items, excluded.items), until = excluded.until;

-- name: holds_of_runs
-- A hold lasts while its job waits for just that time.
SELECT h.run_id::text, h.waits_for,
       sum(CASE WHEN j.status = 'queued' AND j.run_at = h.until THEN h.waiting ELSE 0 END)::int,
       sum(h.items)::int, min(h.since) AS since_at, max(h.until) AS until_at
  FROM policy_holds h
 {postgres: CROSS JOIN LATERAL (SELECT q.status, q.run_at FROM job_queue q
                                 WHERE q.id = h.job_id LIMIT 1) j}
 {sqlite: CROSS JOIN job_queue j ON j.id = h.job_id}
 WHERE h.run_id IN window(id uuid)
 GROUP BY h.run_id, h.waits_for;

-- name: wake_held_jobs
UPDATE job_queue SET run_at = :now, updated_at = :now
 WHERE id = ANY (ARRAY(SELECT h.job_id FROM policy_holds h WHERE h.until > :now))
   AND tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND status = 'queued' AND run_at > :now
RETURNING id::text;

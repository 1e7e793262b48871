-- A run's whole ledger in pages, as a certificate reads it.

-- name: ledger_page
-- All rows of a run in index order, so that each page costs only itself.
SELECT o.job_id::text, o.id::text, encode(o.idempotency_key, 'hex'), o.status, o.submission_target,
       o.repeat_target, o.repeat_memory,
       EXISTS (SELECT 1 FROM attempt_history h
                WHERE h.outbox_id = o.id AND h.outcome = 'abandoned' AND h.attempt < o.attempts),
       EXISTS (SELECT 1 FROM attempt_history h
                WHERE h.outbox_id = o.id AND h.outcome = 'disproved'),
       CASE WHEN o.attempt_contract_id IS NOT NULL THEN
         (SELECT c.submission_target FROM contract_snapshots c WHERE c.id = o.attempt_contract_id) END
  FROM channel_outbox o
 WHERE o.run_id = :run_id AND (o.job_id, o.id) > (:after_job, :after_id)
 ORDER BY o.job_id, o.id LIMIT :most;

-- name: key_is_unique_in_schema
-- Does this database really have the constraint that makes duplicates impossible?
-- postgres:
SELECT EXISTS (
  SELECT 1 FROM pg_index i
   WHERE i.indrelid = 'channel_outbox'::regclass AND i.indisunique AND i.indisvalid
     AND i.indpred IS NULL
     AND (SELECT array_agg(a.attname::text ORDER BY k.ordinality)
            FROM unnest(i.indkey) WITH ORDINALITY k (number, ordinality)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number)
         = ARRAY['tenant_id', 'workspace_id', 'idempotency_key']);
-- sqlite:
SELECT EXISTS (
  SELECT 1 FROM pragma_index_list('channel_outbox') i
   WHERE i."unique" = 1 AND i.partial = 0
     AND (SELECT group_concat(name)
            FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
         = 'tenant_id,workspace_id,idempotency_key');

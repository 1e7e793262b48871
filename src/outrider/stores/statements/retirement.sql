-- Retiring runs: which may be, the commit of their bundle, and the windows that remove rows.

-- name: runs_to_retire
-- Ended long ago, in campaigns where nothing has happened since, and every sink has heard of it.
SELECT r.id::text, r.tenant_id::text, r.workspace_id::text, r.status_seq, r.sealed_seq, r.finished_at,
       r.campaign_id::text, r.intended
  FROM campaign_runs r
 WHERE r.finished_at IS NOT NULL AND r.retired_at IS NULL
   AND r.finished_at < :before AND (r.finished_at, r.id) > (:after_time, :after_id)
   AND NOT EXISTS (SELECT 1 FROM campaign_runs o
                    WHERE o.campaign_id = r.campaign_id
                      AND (o.finished_at IS NULL OR o.finished_at >= :before))
   AND NOT EXISTS (SELECT 1 FROM event_bus_sinks s {sqlite: CROSS} JOIN event_bus_outbox b ON b.sink = s.name
                    WHERE b.run_id = r.id)
 ORDER BY r.finished_at, r.id LIMIT :most;

-- name: hold_retiring_run
UPDATE campaign_runs SET retiring_until = :until
 WHERE id = :run_id AND (retiring_until IS NULL OR retiring_until <= :now)
RETURNING id::text;

-- name: hold_retiring_run_on
UPDATE campaign_runs SET retiring_until = :until WHERE id = :run_id;

-- name: release_retiring_run
UPDATE campaign_runs SET retiring_until = NULL WHERE id = :run_id;

-- name: lock_run_to_retire
-- With its log as it is now, unless something of its campaign goes on again.
SELECT r.last_seq, r.chain_head FROM campaign_runs r
 WHERE r.id = :run_id AND r.finished_at IS NOT NULL AND r.retired_at IS NULL
   AND (r.sealing_until IS NULL OR r.sealing_until <= :now)
   AND NOT EXISTS (SELECT 1 FROM campaign_runs o
                    WHERE o.campaign_id = r.campaign_id AND o.finished_at IS NULL)
   FOR NO KEY UPDATE;

-- name: insert_retirement
INSERT INTO retirements (run_id, campaign_id, artifact_id, sha256, events, head, certificate, retired_at)
VALUES (:run_id, :campaign_id, :artifact_id, :sha256, :events, :head, :certificate, :now);

-- name: run_is_retired
UPDATE campaign_runs SET retired_at = :now, reseal_at = NULL WHERE id = :run_id;

-- name: retirement_of_run
SELECT t.run_id::text, t.campaign_id::text, t.sha256, t.events, t.head, t.certificate, t.retired_at,
       t.removed_at, r.tenant_id::text, r.workspace_id::text, a.reference
  FROM retirements t JOIN campaign_runs r ON r.id = t.run_id
  LEFT JOIN artifacts a ON a.id = t.artifact_id
 WHERE t.run_id = :run_id;

-- name: retirements_under_way
SELECT t.run_id::text FROM retirements t
 WHERE t.removed_at IS NULL AND t.run_id > :after ORDER BY t.run_id LIMIT :most;

-- name: retirement_is_complete
UPDATE retirements SET removed_at = :now WHERE run_id = :run_id;

-- name: is_campaign_retired
SELECT 1 FROM campaign_runs WHERE campaign_id = :campaign_id AND retired_at IS NOT NULL LIMIT 1;

-- name: is_all_of_campaign_retired
SELECT c.audience_size FROM campaigns c
 WHERE c.id = :campaign_id
   AND NOT EXISTS (SELECT 1 FROM campaign_runs r
                    WHERE r.campaign_id = :campaign_id AND r.retired_at IS NULL);

-- name: ledger_to_retire
SELECT o.job_id::text, o.id::text, o.provider_message_id FROM channel_outbox o
 WHERE o.run_id = :run_id AND (o.job_id, o.id) > (:after_job, :after_id)
 ORDER BY o.job_id, o.id LIMIT :most;

-- name: receipts_to_retire
-- Of a window of items.
WITH matched AS MATERIALIZED (
  SELECT m.id FROM item_receipts m WHERE m.outbox_id IN window(id uuid)
)
SELECT r.id::text, r.submission_target, r.receipt_id FROM receipts r
 WHERE r.workspace_id = :workspace_id AND r.id = ANY (ARRAY(SELECT id FROM matched));

-- name: list_retiring_rows
INSERT INTO retiring_rows (id) SELECT id FROM window(id uuid) AS item WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: clear_retiring_rows
DELETE FROM retiring_rows WHERE id IN window(id uuid);

-- name: remove_attempts
DELETE FROM attempt_history WHERE outbox_id IN window(id uuid);

-- name: remove_late_acceptances
DELETE FROM late_acceptances WHERE outbox_id IN window(id uuid);

-- name: remove_deliveries
DELETE FROM deliveries WHERE outbox_id IN window(id uuid);

-- name: remove_verdicts
DELETE FROM doubt_verdicts WHERE outbox_id IN window(id uuid);

-- name: remove_resubmissions
DELETE FROM resubmissions WHERE outbox_id IN window(id uuid);

-- name: remove_item_receipts
DELETE FROM item_receipts WHERE outbox_id IN window(id uuid);

-- name: remove_receipts
DELETE FROM receipts WHERE workspace_id = :workspace_id AND id IN window(id uuid);

-- name: remove_provider_messages
WITH item AS window(provider_message_id text, id uuid)
DELETE FROM provider_messages
 WHERE (provider_message_id, outbox_id) IN (SELECT item.provider_message_id, item.id FROM item);

-- name: remove_items
DELETE FROM channel_outbox WHERE id IN window(id uuid);

-- name: remove_run_events
DELETE FROM run_events WHERE run_id = :run_id AND run_seq > :after AND run_seq <= :until;

-- name: remove_run_snapshots
-- The newest one stays: it is what is shown of the run.
DELETE FROM run_snapshots
 WHERE run_id = :run_id AND last_event_seq > :after AND last_event_seq <= :until
   AND last_event_seq < (SELECT max(n.last_event_seq) FROM run_snapshots n WHERE n.run_id = :run_id);

-- name: remove_sealed_pages
DELETE FROM sealed_pages
 WHERE run_id = :run_id AND tree = :tree AND page > :after AND page <= :until;

-- name: remove_retry_exclusions
DELETE FROM retry_exclusions WHERE run_id = :run_id;

-- name: remove_audience
DELETE FROM audience_members
 WHERE campaign_id = :campaign_id AND position > :after AND position <= :until;

-- name: remove_uploads
DELETE FROM audience_uploads
 WHERE campaign_id = :campaign_id AND chunk > :after AND chunk <= :until;

-- name: last_upload
SELECT coalesce(max(u.chunk), -1)::int FROM audience_uploads u WHERE u.campaign_id = :campaign_id;

-- name: remove_address_pages
DELETE FROM address_pages WHERE campaign_id = :campaign_id AND bucket = :bucket;

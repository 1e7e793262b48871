-- The doors of recipient domains: a window of them is locked, changed and saved in one transaction.

-- name: insert_domain_doors
INSERT INTO domain_doors (submission_target, gateway_url, workspace_id, domain, tokens, refilled_at,
                          updated_at)
SELECT :submission_target, :gateway_url, :workspace_id, item.domain, item.tokens, :now, :now
  FROM window(domain text, tokens float) AS item
 {sqlite: WHERE true}
 ORDER BY item.domain
ON CONFLICT DO NOTHING;

-- name: lock_domain_doors
SELECT domain, tokens, refilled_at, state, closed_at, opens_at, probe_ends_at, epoch, step, reason
  FROM domain_doors
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id = :workspace_id AND domain IN window(domain text)
 ORDER BY domain FOR UPDATE;

-- name: save_domain_doors
WITH item AS window(domain text, tokens float, refilled_at timestamptz, state text,
                    since timestamptz, opens_at timestamptz, probe_until timestamptz, epoch bigint,
                    step int, reason text)
UPDATE domain_doors AS d
   SET tokens = item.tokens, refilled_at = item.refilled_at, state = item.state,
       closed_at = item.since, opens_at = item.opens_at, probe_ends_at = item.probe_until,
       epoch = item.epoch, step = item.step, reason = item.reason, updated_at = :now
  FROM item
 WHERE d.submission_target = :submission_target AND d.gateway_url = :gateway_url
   AND d.workspace_id = :workspace_id AND d.domain = item.domain;

-- name: domain_doors
SELECT domain, tokens, refilled_at, state, closed_at, opens_at, probe_ends_at, epoch, step, reason
  FROM domain_doors
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id = :workspace_id AND domain IN window(domain text);

-- name: set_aside_items
WITH item AS window(id uuid, until timestamptz, waits_for text)
UPDATE channel_outbox AS o
   SET next_attempt_at = item.until, waits_for = item.waits_for, updated_at = :now
  FROM item
 WHERE looked_up(o.id, item.id) AND o.status = 'queued' AND o.attempt_opened_at IS NULL
   AND NOT o.maybe_received AND o.doubted_at IS NULL;

-- name: live_domain_shares
SELECT domain, worker_id, slots FROM domain_shares
 WHERE submission_target = :submission_target AND gateway_url = :gateway_url
   AND workspace_id = :workspace_id AND domain IN window(domain text) AND expires_at > :now;

-- name: save_domain_shares
INSERT INTO domain_shares (submission_target, gateway_url, workspace_id, domain, worker_id, slots,
                           expires_at)
SELECT :submission_target, :gateway_url, :workspace_id, item.domain, :worker_id, item.slots,
       :expires_at
  FROM window(domain text, slots int) AS item
 {sqlite: WHERE true}
ON CONFLICT (submission_target, gateway_url, workspace_id, domain, worker_id) DO UPDATE
   SET slots = excluded.slots, expires_at = excluded.expires_at;

-- Digests: events are collected for one message to one address, then sent together.

-- name: open_digests
-- The open digest of each key, created if there is none; either is locked until the commit.
INSERT INTO digests AS d (id, tenant_id, workspace_id, step_id, audience, recipient_id, address,
                          due_at, created_at)
SELECT id, :tenant_id, :workspace_id, step_id, audience, recipient_id, address, due_at, :now
  FROM window(id uuid, step_id uuid, audience text, recipient_id text, address text,
              due_at timestamptz) AS item WHERE true
ON CONFLICT (tenant_id, workspace_id, step_id, address) WHERE sealed_at IS NULL
DO UPDATE SET entries = d.entries
RETURNING d.id::text, d.step_id::text, d.address, d.entries;

-- name: insert_digest_entries
-- An event that is already in any digest of its key is left out.
INSERT INTO digest_entries (digest_id, domain_event_id, variables, created_at)
SELECT item.digest_id, item.domain_event_id, item.variables::json, :now
  FROM window(digest_id uuid, domain_event_id uuid, step_id uuid, address text,
              variables text) AS item
 WHERE NOT EXISTS (
         SELECT 1 FROM digest_entries e
          {sqlite: JOIN digests d ON} {postgres: CROSS JOIN LATERAL (SELECT 1 FROM digests d WHERE}
                d.id = e.digest_id AND d.step_id = item.step_id AND d.address = item.address
            AND d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id {postgres: LIMIT 1) place}
          WHERE e.domain_event_id = item.domain_event_id {postgres: OFFSET 0})
ON CONFLICT DO NOTHING
RETURNING digest_id::text;

-- name: grow_digests
-- A full digest is sealed, and due.
WITH item AS window(id uuid, added int)
UPDATE digests AS d
   SET entries = d.entries + item.added,
       sealed_at = CASE WHEN d.entries + item.added >= :most THEN :now::timestamptz END,
       due_at = CASE WHEN d.entries + item.added >= :most THEN least(d.due_at, :now)
                     ELSE d.due_at END
  FROM item
 WHERE looked_up(d.id, item.id);

-- name: claim_digests
-- The oldest due ones, hidden from others until the lease ends: a digester that dies loses nothing.
WITH due AS MATERIALIZED (
  SELECT id FROM digests WHERE closed_at IS NULL AND due_at <= :now
   ORDER BY due_at, digests.id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE digests AS d SET sealed_at = coalesce(d.sealed_at, :now), due_at = :lease_expires_at
  FROM due WHERE d.id = due.id
RETURNING d.id::text, d.tenant_id::text, d.workspace_id::text, d.step_id::text, d.recipient_id,
          d.address, d.entries;

-- name: digest_steps
SELECT s.id::text, s.rule_id::text, s.step_order, s.enabled, s.channel, s.submission_target,
       s.subject, s.body, s.timing, s.recipient_config, s.digest_seconds, s.topic, s.created_at,
       r.urgent, r.enabled, r.topic, r.transactional
  FROM workflow_steps s
 {sqlite: JOIN workflow_rules r ON r.id = s.rule_id}
 {postgres: CROSS JOIN LATERAL (SELECT urgent, enabled, topic, transactional FROM workflow_rules
                                 WHERE id = s.rule_id LIMIT 1) r}
 WHERE s.id IN window(id uuid);

-- name: digest_variables
-- The newest events of each digest, as many as fit; at least one.
SELECT digest_id::text, variables
  FROM (SELECT e.digest_id, e.domain_event_id, e.variables,
               sum(octet_length(e.variables::text)) OVER newest_first AS bytes,
               row_number() OVER newest_first AS place
          FROM digest_entries e
         WHERE e.digest_id IN window(id uuid)
        WINDOW newest_first AS (PARTITION BY e.digest_id ORDER BY e.domain_event_id DESC)) entries
 WHERE bytes <= :bytes_most OR place = 1
 ORDER BY entries.digest_id, domain_event_id;

-- name: close_digests
WITH item AS window(id uuid, outbox_id uuid, error text)
UPDATE digests AS d SET closed_at = :now, outbox_id = item.outbox_id, error = item.error
  FROM item
 WHERE looked_up(d.id, item.id) AND d.closed_at IS NULL
RETURNING d.id::text;

-- name: note_digest_problems
WITH item AS window(id uuid, error text)
UPDATE digests AS d SET error = item.error
  FROM item
 WHERE looked_up(d.id, item.id) AND d.closed_at IS NULL;

-- name: digests_of_events
SELECT e.domain_event_id::text, d.id::text, d.step_id::text, d.audience, d.recipient_id, d.address,
       d.due_at, d.closed_at, d.outbox_id::text, d.error
  FROM digest_entries e
 {sqlite: JOIN digests d ON d.id = e.digest_id AND d.tenant_id = :tenant_id
                          AND d.workspace_id = :workspace_id}
 {postgres: CROSS JOIN LATERAL (
   SELECT * FROM digests WHERE id = e.digest_id AND tenant_id = :tenant_id
      AND workspace_id = :workspace_id LIMIT 1) d}
 WHERE e.domain_event_id IN window(id uuid)
 ORDER BY e.domain_event_id LIMIT :most;

-- Digests, in SQLite's dialect: events that are collected for one message to one address.

-- name: open_digests
-- Each place's open digest, a new one where there is none.
INSERT INTO digests (id, tenant_id, workspace_id, step_id, audience, recipient_id, address, due_at,
                     created_at)
SELECT value ->> 0, :tenant_id, :workspace_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, :now
  FROM json_each(:window) WHERE true
ON CONFLICT (tenant_id, workspace_id, step_id, address) WHERE sealed_at IS NULL
DO UPDATE SET entries = entries
RETURNING id, step_id, address, entries;

-- name: insert_digest_entries
-- An event that is in any digest of its place already is left out.
INSERT INTO digest_entries (digest_id, domain_event_id, variables, created_at)
SELECT item.value ->> 0, item.value ->> 1, item.value ->> 4, :now
  FROM json_each(:window) item
 WHERE NOT EXISTS (
         SELECT 1 FROM digest_entries e JOIN digests d ON d.id = e.digest_id
          WHERE e.domain_event_id = item.value ->> 1 AND d.step_id = item.value ->> 2
            AND d.address = item.value ->> 3 AND d.tenant_id = :tenant_id
            AND d.workspace_id = :workspace_id)
ON CONFLICT DO NOTHING
RETURNING digest_id;

-- name: grow_digests
-- A digest that is full is sealed, and due.
UPDATE digests
   SET entries = entries + item.added,
       sealed_at = CASE WHEN entries + item.added >= :most THEN :now END,
       due_at = CASE WHEN entries + item.added >= :most THEN min(due_at, :now) ELSE due_at END
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS added FROM json_each(:window)) item
 WHERE digests.id = item.id;

-- name: claim_digests
-- The oldest due ones, out of others' sight until the lease ends: a digester that dies loses nothing.
UPDATE digests SET sealed_at = coalesce(sealed_at, :now), due_at = :lease_expires_at
 WHERE id IN (SELECT id FROM digests WHERE closed_at IS NULL AND due_at <= :now
               ORDER BY due_at, id LIMIT :most)
RETURNING id, tenant_id, workspace_id, step_id, recipient_id, address, entries;

-- name: digest_steps
SELECT s.id, s.rule_id, s.step_order, s.enabled, s.channel, s.submission_target, s.subject, s.body,
       s.timing, s.recipient_config, s.digest_seconds, s.created_at, r.urgent,
       r.enabled, r.topic, r.transactional
  FROM workflow_steps s JOIN workflow_rules r ON r.id = s.rule_id
 WHERE s.id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: digest_variables
-- The newest events of each digest, as many as have room; at least one.
SELECT digest_id, variables
  FROM (SELECT e.digest_id, e.domain_event_id, e.variables,
               sum(octet_length(e.variables)) OVER newest_first AS bytes,
               row_number() OVER newest_first AS place
          FROM digest_entries e
         WHERE e.digest_id IN (SELECT value ->> 0 FROM json_each(:window))
        WINDOW newest_first AS (PARTITION BY e.digest_id ORDER BY e.domain_event_id DESC)) entries
 WHERE bytes <= :bytes_most OR place = 1
 ORDER BY digest_id, domain_event_id;

-- name: close_digests
UPDATE digests SET closed_at = :now, outbox_id = item.outbox_id, error = item.error
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS outbox_id, value ->> 2 AS error
          FROM json_each(:window)) item
 WHERE digests.id = item.id AND digests.closed_at IS NULL
RETURNING digests.id;

-- name: note_digest_problems
UPDATE digests SET error = item.error
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS error FROM json_each(:window)) item
 WHERE digests.id = item.id AND digests.closed_at IS NULL;

-- name: digests_of_events
SELECT e.domain_event_id, d.id, d.step_id, d.audience, d.recipient_id, d.address, d.due_at,
       d.closed_at, d.outbox_id, d.error
  FROM digest_entries e JOIN digests d ON d.id = e.digest_id
 WHERE e.domain_event_id IN (SELECT value ->> 0 FROM json_each(:window))
   AND d.tenant_id = :tenant_id AND d.workspace_id = :workspace_id
 ORDER BY e.domain_event_id LIMIT :most;

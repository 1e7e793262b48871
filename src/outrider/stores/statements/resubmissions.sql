-- Intents that were submitted again after their contract had ended them, each linked to the first.

-- name: link_resubmission
INSERT INTO resubmissions (outbox_id, original_id, actor, resubmitted_at)
VALUES (:outbox_id, :original_id, :actor, :now);

-- name: resubmission_links
SELECT 'of', o.recipient_id FROM resubmissions r JOIN channel_outbox o ON o.id = r.original_id
 WHERE r.outbox_id = :outbox_id
UNION ALL
SELECT 'as', o.recipient_id FROM resubmissions r JOIN channel_outbox o ON o.id = r.outbox_id
 WHERE r.original_id = :outbox_id;

-- Lists of intents, page by page.

-- name: intents_page
-- The newest first. So many are looked at, at the most, however few of them are asked for.
SELECT page.id::text, page.recipient_id, page.submission_target, page.intent_status,
       CASE page.intent_status WHEN 'ACCEPTED' THEN 'accepted' WHEN 'REJECTED' THEN page.reason END,
       page.exhausted_reason, page.attempts, page.repeats, page.attempt_opened_at, page.doubted_at,
       page.topic, page.transactional, page.reason, page.created_at, page.updated_at
  FROM (
    SELECT * FROM channel_outbox c
     WHERE c.tenant_id = :tenant_id AND c.workspace_id = :workspace_id
       AND c.origin = 'intent' AND c.id < :after
     ORDER BY c.id DESC LIMIT :looked) page
 WHERE (:status::text IS NULL OR page.intent_status = :status)
   AND (:submission_target::text IS NULL OR page.submission_target = :submission_target)
 ORDER BY page.id DESC LIMIT :most;

-- name: intents_looked_until
-- Where the look of intents_page ended, if there was that much to look at.
SELECT o.id::text FROM channel_outbox o
 WHERE o.tenant_id = :tenant_id AND o.workspace_id = :workspace_id
   AND o.origin = 'intent' AND o.id < :after
 ORDER BY o.id DESC LIMIT 1 OFFSET :passed;

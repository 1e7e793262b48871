-- Warm-up plans: how many messages a target has sent on each day, in all and to each domain with a plan
-- of its own, and which of them today.

-- name: lock_warm_up_days
-- Locks the day of each plan until the commit, whether it was known or not.
INSERT INTO warm_up_days AS d (submission_target, domain, day, sent, updated_at)
SELECT :submission_target, item.domain, :day, 0, :now FROM window(domain text) AS item
 {sqlite: WHERE true}
 ORDER BY item.domain
ON CONFLICT (submission_target, domain, day) DO UPDATE SET updated_at = excluded.updated_at;

-- name: warm_up_today
SELECT item.domain,
       (SELECT count(*)::int FROM warm_up_days d
         WHERE d.submission_target = :submission_target AND d.domain = item.domain
           AND d.day < :day AND d.sent > 0),
       coalesce((SELECT d.sent FROM warm_up_days d
                  WHERE d.submission_target = :submission_target AND d.domain = item.domain
                    AND d.day = :day), 0)
  FROM window(domain text) AS item;

-- name: warm_up_settled
SELECT o.id::text FROM channel_outbox o
 WHERE o.id IN window(id uuid)
   AND (o.attempt_opened_at IS NOT NULL OR o.maybe_received
        OR EXISTS (SELECT 1 FROM warm_up_sends s
                    WHERE s.submission_target = :submission_target AND s.day = :day
                      AND s.outbox_id = o.id));

-- name: note_warm_up_sends
INSERT INTO warm_up_sends (submission_target, day, outbox_id)
SELECT :submission_target, :day, item.id FROM window(id uuid) AS item
 {sqlite: WHERE true}
ON CONFLICT (submission_target, day, outbox_id) DO NOTHING
RETURNING outbox_id::text;

-- name: count_warm_up_sends
WITH item AS window(domain text, items int)
UPDATE warm_up_days AS d SET sent = d.sent + item.items, updated_at = :now
  FROM item
 WHERE d.submission_target = :submission_target AND d.domain = item.domain AND d.day = :day;

-- name: forget_warm_up_sends
-- Of earlier days only the number is needed.
DELETE FROM warm_up_sends WHERE submission_target = :submission_target AND day < :day;

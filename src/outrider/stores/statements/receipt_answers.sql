-- Answers to people who wrote STOP or HELP.

-- name: mark_answers
-- Which receipts these items answer. They have just been written by the same transaction. Somebody who
-- has just written expects an answer now: they wait for no sending hours and no frequency cap.
WITH item AS window(id uuid, receipt_id uuid)
UPDATE channel_outbox AS o SET answers_receipt = item.receipt_id, urgent = true
  FROM item
 WHERE looked_up(o.id, item.id) AND o.attempts = 0;

-- Answers to people who wrote STOP or HELP.

-- name: mark_answers
-- Which receipts these items answer. They have just been written by the same transaction.
WITH item AS window(id uuid, receipt_id uuid)
UPDATE channel_outbox AS o SET answers_receipt = item.receipt_id
  FROM item
 WHERE looked_up(o.id, item.id) AND o.attempts = 0;

-- The ledger's clock: the database's time, and the latest time it is known to have reached.

-- name: read_ledger_clock
SELECT {postgres: clock_timestamp()}
       {sqlite: strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'} AS database_at,
       (SELECT told_at FROM ledger_clock) AS told_at;

-- name: keep_ledger_clock
-- Never backwards, unless it was so far ahead that it cannot have been right.
INSERT INTO ledger_clock (id, told_at) VALUES (1, :told_at)
ON CONFLICT (id) DO UPDATE
   SET told_at = CASE WHEN ledger_clock.told_at > :at_most::timestamptz THEN excluded.told_at
                      ELSE greatest(ledger_clock.told_at, excluded.told_at) END;

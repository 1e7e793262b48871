-- What Postgres changes here has no counterpart in SQLite; both keep one history.
SELECT 1;

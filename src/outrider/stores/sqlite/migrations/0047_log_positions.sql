-- How far a database was in its server's log is remembered outside of it, and compared as long as it
-- is the same database: until the next release.
ALTER TABLE database_places ADD COLUMN releases integer NOT NULL DEFAULT 0;

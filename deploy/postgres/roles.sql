-- Two roles for Outrider: one that changes the schema, one that runs it. Whoever breaks into a server
-- or worker can then neither drop tables nor switch off the triggers that keep the ledger append-only.
--
-- Run it in Outrider's database as the database's owner or a superuser:
--
--     psql -d outrider -f roles.sql
--     psql -d outrider -c '\password outrider_migrator' -c '\password outrider_app'
--     OUTRIDER_DATABASE_URL=postgresql://outrider_migrator:…@db/outrider outrider migrate
--
-- Servers and workers then use outrider_app; only `outrider migrate` uses outrider_migrator. It is safe to
-- repeat, and takes over the tables of an installation that used to run with one role.

BEGIN;

-- The list of migrations, which only the migrating role may change. `outrider migrate` would create it.
CREATE TABLE IF NOT EXISTS public.schema_migrations
  (name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL,
   is_breaking boolean NOT NULL DEFAULT false);

DO $$
DECLARE
  relation record;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'outrider_migrator') THEN
    CREATE ROLE outrider_migrator LOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'outrider_app') THEN
    CREATE ROLE outrider_app LOGIN;
  END IF;
  -- Tables, views, sequences and functions that another role made before.
  FOR relation IN
    SELECT format('ALTER TABLE %s OWNER TO outrider_migrator', oid::regclass) AS change
      FROM pg_class
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
        AND relowner <> 'outrider_migrator'::regrole
    UNION ALL
    SELECT format('ALTER FUNCTION %s OWNER TO outrider_migrator', oid::regprocedure)
      FROM pg_proc
      WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'outrider%'
        AND proowner <> 'outrider_migrator'::regrole
  LOOP
    EXECUTE relation.change;
  END LOOP;
END $$;

-- Before version 15, everybody may create tables in every database.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO outrider_migrator;
GRANT USAGE ON SCHEMA public TO outrider_app;

-- Rows: of what there is, and of what later migrations will create.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO outrider_app;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO outrider_app;
ALTER DEFAULT PRIVILEGES FOR ROLE outrider_migrator IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO outrider_app;
ALTER DEFAULT PRIVILEGES FOR ROLE outrider_migrator IN SCHEMA public
  GRANT USAGE, SELECT ON SEQUENCES TO outrider_app;

REVOKE INSERT, UPDATE, DELETE ON public.schema_migrations FROM outrider_app;

COMMIT;

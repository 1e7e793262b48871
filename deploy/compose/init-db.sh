#!/bin/sh
# Run by the Postgres image when the database is new: the two roles, with their passwords.
set -eu
psql -v ON_ERROR_STOP=1 --username postgres --dbname outrider --file /roles/roles.sql
for role in app migrator; do
  psql -v ON_ERROR_STOP=1 --username postgres --dbname outrider \
    -v role="outrider_$role" -v password="$(cat "/run/secrets/${role}_password")" <<'SQL'
ALTER ROLE :"role" PASSWORD :'password';
SQL
done

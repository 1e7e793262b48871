#!/bin/sh
# Makes the passwords and keys that compose.yaml mounts. What exists stays as it is.
set -eu
umask 077
mkdir -p "$(dirname "$0")/secrets"
cd "$(dirname "$0")/secrets"
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in db_password app_password migrator_password root_key; do
  [ -e "$name" ] || random >"$name"
done
for role in app migrator; do
  [ -e "${role}_url" ] || printf 'postgresql://outrider_%s:%s@db/outrider' "$role" "$(cat "${role}_password")" >"${role}_url"
done
# Compose mounts them with their owner and mode, and the processes run as other users. The folder is closed.
chmod 644 ./*

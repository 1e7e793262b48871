#!/bin/sh
# What the tests need that no wheel has: Chromium, its letters, HAProxy, Postfix, PgBouncer and
# Prometheus. As root on Debian they are installed; elsewhere their tests are skipped, and say so.
set -eu
missing=
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="chromium fonts-liberation"
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing="$missing haproxy"
command -v postfix >/dev/null || [ -x /usr/sbin/postfix ] || missing="$missing postfix"
command -v postgrey >/dev/null || [ -x /usr/sbin/postgrey ] || missing="$missing postgrey"
command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"
command -v prometheus >/dev/null || missing="$missing prometheus"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "NOT INSTALLED: $missing; their tests will be skipped" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The tests start a Postfix of their own: the machine's stays without a configuration.
case "$missing" in *postfix*) echo "postfix postfix/main_mailer_type select No configuration" | debconf-set-selections ;; esac
# shellcheck disable=SC2086 - the names are words
apt-get install -y -qq --no-install-recommends $missing >/dev/null

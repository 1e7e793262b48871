#!/bin/sh
# What the tests need that no wheel has: Chromium, its letters, and HAProxy. As root on Debian they
# are installed; elsewhere their tests are skipped, and say so.
set -eu
missing=
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="chromium fonts-liberation"
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing="$missing haproxy"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "NOT INSTALLED: $missing; their tests will be skipped" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 - the names are words
apt-get install -y -qq --no-install-recommends $missing >/dev/null

#!/usr/bin/env bash
# A campaign on Temporal: one API server without a worker, two workers, one of them killed midway,
# the launch paused and resumed, the certificate printed. On loopback, in a temporary folder.
# LOOK=yes waits before it ends, so that one can look around in Temporal's own pages.
set -euo pipefail
cd "$(dirname "$0")"
: "${TEMPORAL_PORT:=17233}" "${TEMPORAL_UI_PORT:=18233}" "${API_PORT:=18400}" "${SANDBOX_PORT:=18090}"
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
received="$folder/received.ndjson"
export OUTRIDER_DATABASE_URL="sqlite:///$folder/outrider.db" OUTRIDER_REGISTRY="$folder/registry.json"
export OUTRIDER_ARTIFACTS="$folder/artifacts" OUTRIDER_SPOOL="$folder/spool"
export OUTRIDER_ROOT_KEY=any-text-will-do-for-an-example
export OUTRIDER_TEMPORAL_ADDRESS="127.0.0.1:$TEMPORAL_PORT"
export TEMPORAL_ADDRESS="$OUTRIDER_TEMPORAL_ADDRESS" # for the command `temporal`

until_true() { # at most a minute
  for _ in $(seq 600); do "$@" > /dev/null 2>&1 && return; sleep 0.1; done
  echo "never came true: $*" >&2
  exit 1
}
has_received() { [ "$(wc -l < "$received")" -ge "$1" ]; }
post() { curl -sSf -H "Authorization: Bearer $OUTRIDER_KEY" -X POST "$OUTRIDER_SERVER/api/v2/$1"; echo; }

echo "== A Temporal server, a provider simulator, an API server without a worker, two workers"
HOME="$folder" temporal server start-dev --ip 127.0.0.1 --port "$TEMPORAL_PORT" \
  --ui-port "$TEMPORAL_UI_PORT" --db-filename "$folder/temporal.db" > "$folder/temporal.log" 2>&1 &
outrider sandbox --port "$SANDBOX_PORT" --smtp-port 0 --log "$received" > /dev/null 2>&1 &
sed "s/SANDBOX_PORT/$SANDBOX_PORT/" registry.json > "$OUTRIDER_REGISTRY"
until_true temporal workflow count
outrider migrate
outrider serve --workers 0 --port "$API_PORT" > /dev/null 2> "$folder/server.log" &
outrider work > /dev/null 2> "$folder/first.log" &
first=$!
outrider work > /dev/null 2> "$folder/second.log" &
until_true curl -sf "http://127.0.0.1:$API_PORT/readyz"

echo "== A campaign, through the API server"
export OUTRIDER_SERVER="http://127.0.0.1:$API_PORT" OUTRIDER_KEY="$OUTRIDER_ROOT_KEY"
cp campaign.json "$folder/campaign.json"
(echo id,phone,firstName; seq 2000 | awk '{printf "lead-%d,+4477%08d,Ada\n", $1, $1}') > "$folder/people.csv"
created=$(outrider campaign create "$folder/campaign.json" --json)
campaign=$(sed -E 's/.*"campaignId": ?"([^"]+)".*/\1/' <<< "$created")
started=$(post "campaigns/$campaign/phases/launch/start")
run=$(sed -E 's/.*"runId": ?"([^"]+)".*/\1/' <<< "$started")
until_true has_received 200

echo "== SIGKILL to one of the two workers"
kill -9 "$first"
wait "$first" 2> /dev/null || true
until_true has_received 400

echo "== Paused: Temporal has a workflow that runs, and nothing goes out"
post "campaigns/$campaign/phases/launch/pause"
temporal workflow list
outrider campaign status "$campaign"

echo "== Resumed"
post "campaigns/$campaign/phases/launch/resume"
outrider campaign watch "$campaign" launch

echo "== What became of it"
outrider run certificate "$run"
echo "the providers delivered $(grep -c '"delivered":true' "$received") of $(wc -l < "$received") requests"
# The tenant there is from the start, and the run.
temporal workflow result --workflow-id "outrider/00000000-0000-7000-8000-000000000001/run/$run"
if [ -n "${LOOK:-}" ]; then
  read -r -p "Temporal's own pages: http://127.0.0.1:$TEMPORAL_UI_PORT (Enter ends it) "
fi

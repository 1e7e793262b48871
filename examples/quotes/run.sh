#!/usr/bin/env bash
# From domain events to messages, end to end, on nothing but this folder: rules are applied, events
# emitted (one of them twice, by mistake), messages sent to a provider simulator, and explained.
set -euo pipefail
cd "$(dirname "$0")"
export WHATSAPP_TOKEN=any-text-will-do-for-the-simulator
rm -f quotes.db quotes.db-* received.ndjson

outrider sandbox --port 8091 --smtp-port 8026 --log received.ndjson &
sandbox=$!
trap 'kill $sandbox 2>/dev/null || true' EXIT

outrider migrate
outrider workflow apply workflow.toml --yes
outrider event emit events.ndjson
outrider work --until-idle

echo "== What the providers received"
cat received.ndjson
for event in quote-17-sent quote-17-accepted quote-18-rejected visit-5; do
  echo "== Why: $event"
  outrider event explain "$event"
done

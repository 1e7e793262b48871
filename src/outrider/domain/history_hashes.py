"""Hashes of run events by their content: equal in two databases exactly where the events are."""

import hashlib
import json
from collections.abc import Mapping

from outrider.domain.run_events import RunEvent
from outrider.domain.times import rfc3339


def event_hash(event: RunEvent) -> bytes:
    """SHA-256 over everything the log says, in one order and one spelling."""
    content = [
        event.run_id, event.run_seq, event.type, rfc3339(event.occurred_at), event.step_id,
        event.logical_attempt, event.engine_attempt, event.emitter, event.plan_version,
        event.idempotency_key, event.contract_version, event.payload,
    ]  # fmt: skip
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


def run_hash(by_sequence: Mapping[int, bytes]) -> str:
    """Of a run: over the hashes of its events, in their order."""
    whole = hashlib.sha256()
    for _, one in sorted(by_sequence.items()):
        whole.update(one)
    return whole.hexdigest()

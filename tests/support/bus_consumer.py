"""What a consumer of the bus does, with the rules of whichever release is on its path.

`events` reads CloudEvents, a line each, and prints each run's snapshot; `snapshots` reads stored
snapshots and prints them as that release understands them. Only names that every release has are
used, and nothing of these tests is imported.
"""

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from outrider.domain.ids import RunId
from outrider.domain.projection import project_run
from outrider.domain.run_events import RunEvent
from outrider.domain.snapshot_documents import snapshot_document, snapshot_from

Document = dict[str, Any]


def run_event(told: Document) -> RunEvent:
    data = told["data"]
    engine_attempt = data["engineAttemptId"]
    return RunEvent(
        run_id=RunId(data["runId"]),
        run_seq=data["runSeq"],
        type=told["type"].removeprefix("outrider.run."),
        occurred_at=datetime.fromisoformat(told["time"]),
        step_id=data["stepId"],
        logical_attempt=int(data["logicalAttemptId"]),
        engine_attempt=None if engine_attempt is None else int(engine_attempt),
        payload=data["payload"],
        emitter=data["emitter"],
        plan_version=data["planVersion"],
        idempotency_key=data["idempotencyKey"],
    )


def folded(lines: Iterator[Document]) -> Iterator[Document]:
    """Repeats are known by source and id; of each run the events by their sequence."""
    known = {(told["source"], told["id"]): run_event(told) for told in lines}
    by_run: dict[RunId, list[RunEvent]] = {}
    for event in sorted(known.values(), key=lambda each: each.run_seq):
        by_run.setdefault(event.run_id, []).append(event)
    for run_id, events in sorted(by_run.items()):
        yield snapshot_document(project_run(run_id, events))


def main(what: str) -> None:
    lines = map(json.loads, sys.stdin)
    found = (
        folded(lines)
        if what == "events"
        else (snapshot_document(snapshot_from(each)) for each in lines)
    )
    for document in found:
        print(json.dumps(document))


if __name__ == "__main__":
    main(sys.argv[1])

"""`outrider`, which kills itself before the nth statement of a keyed control's transaction.

The number comes from the file that KILL_AT_FILE names, read anew for each such transaction, so one
test can say for each request where its server dies. Past the last statement it dies after the
commit and before the answer.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.kernel.access.idempotency_keeper import DatabaseIdempotency
from outrider.kernel.control.phase_controller import PhaseController
from outrider.ports.idempotency import RequestKey, StoredAnswer
from outrider.ports.store import Result, Transaction

AFTER_COMMIT = -1


def _kill_at() -> int | None:
    try:
        return int(Path(os.environ["KILL_AT_FILE"]).read_text())
    except (FileNotFoundError, ValueError):
        return None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    guarded = DatabaseIdempotency.guarded
    written = PhaseController._written

    def doomed(
        self: DatabaseIdempotency,
        key: RequestKey,
        script: Transaction[Result],
        answer_of: Callable[[Result], StoredAnswer],
    ) -> Transaction[Result]:
        kill_at, asked = _kill_at(), 0
        inner = guarded(self, key, script, answer_of)
        rows: Any = None
        while True:
            try:
                statement = inner.send(rows)
            except StopIteration as done:
                result: Result = done.value
                return result
            asked += 1
            if asked == kill_at:
                _die()
            rows = yield statement

    async def written_and_dead(self: PhaseController, *given: Any) -> Any:
        answer = await written(self, *given)
        if _kill_at() == AFTER_COMMIT:
            _die()
        return answer

    DatabaseIdempotency.guarded = doomed  # type: ignore[method-assign]
    PhaseController._written = written_and_dead  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    from outrider.cli.app import main

    install()
    main()

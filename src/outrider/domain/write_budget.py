"""The write budget: how long an event's write may take, and which events may be written later."""

from dataclasses import dataclass

from outrider.domain.run_events import RunEventType

DEFAULT_BUDGET_MS = 3_000
DEFAULT_FAIL_OPEN = frozenset({RunEventType.STEP_STARTED})
DEFAULT_NEVER_FAIL_OPEN = frozenset({RunEventType.STEP_COMPLETED, RunEventType.STEP_FAILED})


@dataclass(frozen=True, slots=True)
class WriteBudget:
    """An event that fails open is spooled on this machine and written when the store answers again.

    One that never does fails its step instead: a step's outcome is known only once it is written.
    """

    milliseconds: int = DEFAULT_BUDGET_MS
    fail_open: frozenset[RunEventType] = DEFAULT_FAIL_OPEN
    never_fail_open: frozenset[RunEventType] = DEFAULT_NEVER_FAIL_OPEN

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1_000

    def fails_open(self, event: RunEventType) -> bool:
        return event in self.fail_open and event not in self.never_fail_open

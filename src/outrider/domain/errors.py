"""Every error Outrider raises on purpose. Outcomes of sending are values, never exceptions.

OutriderError
├── InvalidInput            a document or argument is wrong; carries every problem at once
├── NotFound                the named object does not exist in this workspace
├── Conflict                the object is not in a state that allows this
│   ├── IdempotencyConflict the same id was used before for something else
│   ├── InvalidPhaseTransition  the phase's state machine has no such transition
│   ├── ExpectedStateMismatch   the phase is not in the state its controller believed
│   ├── PreconditionFailed      the transition exists, but a precondition does not hold
│   ├── SignalRefused           the run, or its step, is not in a state for this signal
│   └── WorkerMayLive           the calling worker may still be running; too early to judge
├── Forbidden               the caller lacks permission; the refusal is recorded
├── Overloaded              there is no room for it now; trying again later may help
├── InvalidTransition       a state machine refused a trigger
├── HistoryError            the history of runs in another database
│   ├── HistoryUnavailable  it cannot be reached, or is busy; trying again may help
│   └── HistoryRefused      it refuses what it is given, or lacks its tables
└── StoreError
    ├── StoreUnavailable    the database cannot be reached or dropped us; trying again may help
    │   └── ArtifactsUnavailable    the file store cannot be reached; trying again may help
    ├── StoreRefused        the database refused a statement by a constraint or a trigger
    └── SchemaMismatch      the schema is missing, older, newer or was edited
"""

from dataclasses import dataclass


class OutriderError(Exception):
    """The root: `code` is for machines, the message is for people, `hint` says what to do next."""

    code = "OUTRIDER_ERROR"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def details(self) -> dict[str, object]:
        """What machines should know besides the code, in the contracts' own words."""
        return {}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a document: where it is and what is wrong with it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidInput(OutriderError):
    code = "INVALID_REQUEST"

    def __init__(
        self, message: str, problems: list[Problem] | None = None, *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or []


class NotFound(OutriderError):
    code = "NOT_FOUND"


class Conflict(OutriderError):
    code = "CONFLICT"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class InvalidPhaseTransition(Conflict):
    code = "INVALID_PHASE_TRANSITION"

    def __init__(self, state: str, aim: str, action: str, instead: str | None = None) -> None:
        """`instead`: the control that does lead to the aim, where the table has one."""
        if instead is None:
            message, hint = f"Cannot transition from '{state}' to '{aim}'", None
        else:
            message, hint = f"Cannot {action} a phase that is '{state}'", f"{instead} it instead"
        super().__init__(message, hint=hint)
        self.state, self.action = state, action

    @property
    def details(self) -> dict[str, object]:
        return {"current_state": self.state, "attempted_action": self.action}


class ExpectedStateMismatch(Conflict):
    code = "EXPECTED_STATE_MISMATCH"

    def __init__(self, state: str, expected: str, action: str) -> None:
        super().__init__(
            f"Expected state '{expected}' but current state is '{state}'; cannot {action}"
        )
        self.state, self.expected, self.action = state, expected, action

    @property
    def details(self) -> dict[str, object]:
        return {
            "current_state": self.state,
            "expected_state": self.expected,
            "attempted_action": self.action,
        }


BLOCKED_BECAUSE = {
    "another_phase_in_progress": "'{blocking}' is in progress",
    "another_phase_paused": "'{blocking}' is paused; resume or stop it first",
    "predecessor_not_completed": "'{blocking}' comes before it and is not completed",
    "predecessor_output_missing": "its audience is empty; add recipients, and complete its"
    " audience_import if it has one",
    "previous_run_not_finished": "its last run still has unfinished items; try again in a moment",
    "items_without_ending": "some items of its last run were given up without an outcome, and only"
    " a new campaign can send them; `outrider alerts` has the reason",
    "run_not_finished": "its run has not ended; a phase completes when its run does",
    "confirmation_required": 'everyone would receive it again; to confirm, send "confirm": true',
    "nothing_to_send": "its last run left nobody to send to",
    "run_not_released": "its run is waiting for approval or capacity; approve it, or stop it",
    "run_not_current": "that run is not the current run of '{blocking}'",
    "no_handler": "no handler for this phase is installed here",
}


class PreconditionFailed(Conflict):
    def __init__(
        self, action: str, reason: str, blocking: str | None, state: str | None = None
    ) -> None:
        why = BLOCKED_BECAUSE[reason].format(blocking=blocking)
        super().__init__(f"Cannot {action} the phase: {why}")
        self.action, self.reason, self.blocking, self.state = action, reason, blocking, state
        again = action in ("rerun", "retry")
        self.code = "RERUN_PRECONDITION_FAILED" if again else "PHASE_PRECONDITION_FAILED"

    @property
    def details(self) -> dict[str, object]:
        details: dict[str, object] = {
            "reason": self.reason,
            "blocking_phase": self.blocking,
            "attempted_action": self.action,
        }
        return details if self.state is None else {**details, "current_state": self.state}


class SignalRefused(Conflict):
    code = "SIGNAL_REJECTED"

    def __init__(self, signal: str, reason: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.signal, self.reason = signal, reason

    @property
    def details(self) -> dict[str, object]:
        return {"signal": self.signal, "reason": self.reason}


class WorkerMayLive(Conflict):
    """The worker's call may still arrive, so it is too early to say that it did not."""

    code = "WORKER_MAY_LIVE"

    def __init__(self, items: int, try_again_at: str | None) -> None:
        when = (
            "end that process, or wait until the call has finished"
            if try_again_at is None
            else f"wait until {try_again_at}, when the worker counts as lost"
        )
        super().__init__(
            f"the worker that called {'it' if items == 1 else f'{items} of them'} may still be"
            " running, and the message may still be sent",
            hint=f"{when}; or use `force`",
        )
        self.items, self.try_again_at = items, try_again_at

    @property
    def details(self) -> dict[str, object]:
        return {"items": self.items, "try_again_at": self.try_again_at}


class Forbidden(OutriderError):
    code = "SIGNAL_FORBIDDEN"

    def __init__(self, signal: str, reason: str) -> None:
        super().__init__(f"{signal} is refused: {reason}")
        self.signal, self.reason = signal, reason

    @property
    def details(self) -> dict[str, object]:
        return {"signal": self.signal, "reason": self.reason}


class Overloaded(OutriderError):
    code = "OVERLOADED"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after_seconds} seconds")
        self.retry_after_seconds = retry_after_seconds


class InvalidTransition(OutriderError):
    code = "INVALID_TRANSITION"

    def __init__(self, machine: str, state: str, trigger: str) -> None:
        super().__init__(f"a {machine} that is '{state}' cannot {trigger}")
        self.machine, self.state, self.trigger = machine, state, trigger


class StoreError(OutriderError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class ArtifactsUnavailable(StoreUnavailable):
    """The file store; the database may be fine."""


class StoreRefused(StoreError):
    code = "STORE_REFUSED"


class EngineUnavailable(OutriderError):
    """The engine could not be notified; the change is committed and will be found later."""

    code = "ENGINE_UNAVAILABLE"


class SchemaMismatch(StoreError):
    code = "SCHEMA_MISMATCH"


class HistoryError(OutriderError):
    """The history of runs: a mirror, so nothing else depends on it."""

    code = "HISTORY_FAILED"


class HistoryUnavailable(HistoryError):
    code = "HISTORY_UNAVAILABLE"


class HistoryRefused(HistoryError):
    code = "HISTORY_REFUSED"

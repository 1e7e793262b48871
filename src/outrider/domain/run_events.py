"""The canonical events of a run: what happened to it and its steps, each with one identity.

An event belongs to a run, to a step if it is about one, and to a logical attempt. A repeated report
has the same key, so the log keeps it once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.ids import IdempotencyKey, RunId, idempotency_key


class RunEventType(StrEnum):
    RUN_APPROVED = "RunApproved"
    RUN_STARTED = "RunStarted"
    STEP_STARTED = "StepStarted"
    STEP_COMPLETED = "StepCompleted"
    STEP_FAILED = "StepFailed"
    STEP_SKIPPED = "StepSkipped"
    SIGNAL_ACCEPTED = "SignalAccepted"
    SIGNAL_REJECTED = "SignalRejected"
    RUN_PAUSED = "RunPaused"
    RUN_RESUMED = "RunResumed"
    RUN_COMPLETED = "RunCompleted"
    RUN_FAILED = "RunFailed"
    RUN_CANCELLED = "RunCancelled"
    ROLLOUT_PLANNED = "RolloutPlanned"
    ROLLOUT_STEP_RELEASED = "RolloutStepReleased"
    ROLLOUT_STEP_ENDED = "RolloutStepEnded"
    ROLLOUT_HALTED = "RolloutHalted"
    VARIANTS_PLANNED = "VariantsPlanned"
    WINNER_CHOSEN = "WinnerChosen"


class Emitter(StrEnum):
    PLANNER = "planner"
    ENGINE = "engine"
    ACTIVITY = "activity"
    AUTHORISATION = "authorisation"


EMITTERS = {
    RunEventType.RUN_APPROVED: Emitter.PLANNER,
    RunEventType.RUN_STARTED: Emitter.ENGINE,
    RunEventType.STEP_STARTED: Emitter.ACTIVITY,
    RunEventType.STEP_COMPLETED: Emitter.ACTIVITY,
    RunEventType.STEP_FAILED: Emitter.ACTIVITY,
    RunEventType.STEP_SKIPPED: Emitter.ENGINE,
    RunEventType.SIGNAL_ACCEPTED: Emitter.AUTHORISATION,
    RunEventType.SIGNAL_REJECTED: Emitter.AUTHORISATION,
    RunEventType.RUN_PAUSED: Emitter.ENGINE,
    RunEventType.RUN_RESUMED: Emitter.ENGINE,
    RunEventType.RUN_COMPLETED: Emitter.ENGINE,
    RunEventType.RUN_FAILED: Emitter.ENGINE,
    RunEventType.RUN_CANCELLED: Emitter.ENGINE,
    RunEventType.ROLLOUT_PLANNED: Emitter.PLANNER,
    RunEventType.ROLLOUT_STEP_RELEASED: Emitter.ENGINE,
    RunEventType.ROLLOUT_STEP_ENDED: Emitter.ENGINE,
    RunEventType.ROLLOUT_HALTED: Emitter.ENGINE,
    RunEventType.VARIANTS_PLANNED: Emitter.PLANNER,
    RunEventType.WINNER_CHOSEN: Emitter.ENGINE,
}
"""Which source may report what; any other source is refused."""

FIRST_LOGICAL_ATTEMPT = 1
SIGNAL_STEP = "signal:"
ROLLOUT_STEP = "rollout:"
WINNER_STEP = "winner:"


def signal_step(number: int) -> str:
    """The identity of a run's nth signal, used where other events have their step."""
    return f"{SIGNAL_STEP}{number}"


def rollout_step(number: int, why: str = "") -> str:
    """The identity of a step of a run's rollout, likewise; a step may be halted for several
    reasons, each once."""
    return f"{ROLLOUT_STEP}{number}" + (f":{why}" if why else "")


def winner_step(message_id: str) -> str:
    """The identity of a message's winner, likewise."""
    return f"{WINNER_STEP}{message_id}"


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One entry of a run's log. `type` is text: a log may hold types that this code does not
    know."""

    run_id: RunId
    run_seq: int
    type: str
    occurred_at: datetime
    step_id: str | None = None
    logical_attempt: int = FIRST_LOGICAL_ATTEMPT
    engine_attempt: int | None = None
    payload: Mapping[str, object] = field(default_factory=dict)
    emitter: str = ""
    plan_version: str = ""
    idempotency_key: str = ""
    contract_version: str = CONTRACT_VERSION


def event_key(
    run_id: str, step_id: str | None, logical_attempt: int, event_type: str, plan_version: str
) -> IdempotencyKey:
    """The contract's formula. It omits the engine's attempt: an engine retry is not a new event.

    An event of the run as a whole has an empty step. Events about a signal, or directly caused by
    it, have the signal instead (`signal_step`), because they belong to no attempt.
    """
    return idempotency_key(run_id, step_id or "", str(logical_attempt), event_type, plan_version)

"""A control of a phase: how it is requested, how it is answered, and what a refusal logs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import structlog

from outrider.domain.errors import Conflict
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.phases import Action
from outrider.domain.signals import AskedSignal
from outrider.domain.states import PhaseState
from outrider.ports.store import Transaction

log = structlog.get_logger()


class RerunScope(StrEnum):
    """Whom a rerun is for: those the last run did not reach, or everyone again."""

    REMAINDER = "remainder"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Control:
    """One control as requested.

    A start with a `request_id` is that run request: repeating it yields the same run. `signal` and
    `run_id`: it was sent to this run, and applies only while that is the phase's current run.
    `guard` adds the request's idempotency key and its answer to the control's transaction.
    `reason`: why the system itself asks for it.
    """

    action: Action
    actor: str
    expected: PhaseState | None = None
    scope: RerunScope | None = None
    confirm: bool = False
    request_id: str | None = None
    signal: AskedSignal | None = None
    run_id: RunId | None = None
    reason: str | None = None
    guard: Callable[[Transaction["ControlAnswer"]], Transaction["ControlAnswer"]] | None = None


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """The phase after a control; `sequence` is that of the event that brought it there."""

    campaign_id: CampaignId
    phase: str
    state: PhaseState
    sequence: int
    changed: bool
    run_id: RunId | None
    waits_for: str | None = None

    def as_document(self) -> dict[str, object]:
        return {
            "campaignId": self.campaign_id,
            "phase": self.phase,
            "state": self.state.value,
            "sequence": self.sequence,
            "changed": self.changed,
            "runId": self.run_id,
            "waitsFor": self.waits_for,
            "success": True,
        }


@contextmanager
def refusals_logged(campaign_id: CampaignId, phase: str | None, control: Control) -> Iterator[None]:
    """Refusals are logged too, because the response went only to the caller."""
    try:
        yield
    except Conflict as refusal:
        log.warning(
            "phase_control_refused",
            campaign_id=campaign_id,
            phase=phase,
            actor=control.actor,
            code=refusal.code,
            error=refusal.message,
            **{"attempted_action": control.action.value, **refusal.details},
        )
        raise

"""A control of a phase: how somebody asks for one, what is answered, and what a refusal logs."""

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
    """Whom a rerun is for: those the last run left over, or everybody again."""

    REMAINDER = "remainder"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Control:
    """One control as somebody asked for it.

    A beginning with a `request_id` is that run request: made again, it is the same run. `signal`
    and `run_id`: it was sent to this run, and holds only while that is the phase's own. `guard`
    adds the request's idempotency key and its answer to the control's own transaction.
    """

    action: Action
    actor: str
    expected: PhaseState | None = None
    scope: RerunScope | None = None
    confirm: bool = False
    request_id: str | None = None
    signal: AskedSignal | None = None
    run_id: RunId | None = None
    guard: Callable[[Transaction["ControlAnswer"]], Transaction["ControlAnswer"]] | None = None


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """How the phase stands after a control; `sequence` is that of the event that made it so."""

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
    """Who asks why a phase did not move finds it in the log; the answer went to somebody else."""
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

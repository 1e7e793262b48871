"""Phases on the wire: controls, their responses, the snapshot, and the envelope of an event."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from outrider.api.models.blockers import BlockerAnswer, blocker_answers
from outrider.api.models.common import AccountingAnswer, Answer, Line, Success
from outrider.api.models.rollouts import RolloutStepAnswer, rollout_answers
from outrider.documents import Document
from outrider.domain.states import PhaseState, RunStatus
from outrider.kernel.transactions.phase_controls import ControlAnswer, RerunScope
from outrider.kernel.transactions.run_requests import HeldFor
from outrider.kernel.transactions.snapshots import CampaignSnapshot, PhaseSnapshot
from outrider.limits.campaigns import REQUEST_ID_MAX_CHARACTERS

ExpectedState = Annotated[
    PhaseState | None,
    Field(
        alias="expected_state",
        strict=False,
        description="Refuse the request unless the phase is in this state.",
    ),
]


class ControlBody(Document):
    model_config = ConfigDict(json_schema_extra={"examples": [{"expected_state": "in_progress"}]})

    expected_state: ExpectedState = None


class BeginBody(ControlBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"runRequestId": "spring-1"}]})

    run_request_id: Line | None = Field(
        default=None,
        min_length=1,
        max_length=REQUEST_ID_MAX_CHARACTERS,
        pattern=r"^[^|]+$",
        description="Repeating the request with the same ID returns the same run.",
    )


class RerunBody(BeginBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": "remainder"}]})

    scope: Annotated[
        RerunScope | None,
        Field(
            strict=False,
            description="For those the last run did not reach, or for everyone again; the default"
            " is the remainder of a partial run.",
        ),
    ] = None
    confirm: bool = Field(
        default=False, description="Required with scope `all`: everyone receives it again."
    )


class ControlDone(Success):
    campaign_id: str
    phase: str
    state: PhaseState
    sequence: int = Field(description="Sequence of the event that put the phase into this state.")
    changed: bool = Field(description="False if nothing had to change.")
    run_id: str | None
    waits_for: Annotated[HeldFor | None, Field(strict=False)] = Field(
        description="What the run waits for before it is released: an APPROVE, or capacity."
    )

    @classmethod
    def of(cls, answer: ControlAnswer) -> "ControlDone":
        return cls.model_validate(answer.as_document())


class PhaseStatus(Answer):
    state: PhaseState
    progress_percentage: float
    run_id: str | None
    run_status: RunStatus | None
    sequence: int
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    accounting: AccountingAnswer | None
    earlier_in_doubt: int = Field(
        description="Items left in doubt by earlier runs that this one retried; not in the"
        " accounting."
    )
    waits_for: HeldFor | None = Field(
        description="What a run that is not released yet waits for: an APPROVE, or capacity."
    )

    outcome: AccountingAnswer | None = Field(
        description="Of a launch: the final outcome of every message, over this run and the"
        " earlier ones that it retried."
    )
    runs: int = Field(description="Number of runs that the outcome covers.")
    scheduled_for: datetime | None = Field(
        description="When the run starts sending; null if it is not scheduled."
    )
    rollout: list[RolloutStepAnswer] = Field(
        default=[], description="The steps of a launch that has a rollout."
    )
    blockers: list[BlockerAnswer] = Field(
        description="Why the current phase is not moving; empty while it moves."
    )

    @classmethod
    def of(cls, phase: PhaseSnapshot) -> "PhaseStatus":
        return cls(
            state=phase.state,
            progress_percentage=phase.progress_percentage,
            run_id=phase.run_id,
            run_status=RunStatus(phase.run_status) if phase.run_status else None,
            sequence=phase.sequence,
            reason=phase.reason,
            started_at=phase.started_at,
            finished_at=phase.finished_at,
            updated_at=phase.updated_at,
            accounting=AccountingAnswer.of(phase.accounting) if phase.accounting else None,
            earlier_in_doubt=phase.earlier_in_doubt,
            waits_for=HeldFor(phase.waits_for) if phase.waits_for else None,
            outcome=AccountingAnswer.of(phase.outcome) if phase.outcome else None,
            runs=phase.runs,
            scheduled_for=phase.scheduled_for,
            rollout=rollout_answers(phase.rollout),
            blockers=blocker_answers(phase.blockers),
        )


class CampaignStatus(Answer):
    """The snapshot: authoritative, and a client's new baseline."""

    campaign_id: str
    name: str
    control_phase: str | None = Field(description="The phase that pause, resume and stop target.")
    last_sequence: int
    recipients: int
    phases: dict[str, PhaseStatus]
    phase_order: list[str]

    @classmethod
    def of(cls, snapshot: CampaignSnapshot) -> "CampaignStatus":
        return cls(
            campaign_id=snapshot.campaign_id,
            name=snapshot.name,
            control_phase=snapshot.control_phase,
            last_sequence=snapshot.last_sequence,
            recipients=snapshot.audience_size,
            phases={phase.phase: PhaseStatus.of(phase) for phase in snapshot.phases},
            phase_order=[phase.phase for phase in snapshot.phases],
        )


class EventEnvelope(Answer):
    """The `data:` of each event of the stream; its `id:` is the sequence."""

    type: str
    campaign_id: str
    phase: str | None = Field(description="Null for `snapshot_required` only.")
    sequence: int
    timestamp: datetime
    payload: dict[str, Any]

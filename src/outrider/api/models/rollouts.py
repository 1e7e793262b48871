"""Rollouts on the wire: the steps of a launch, and how far it has come."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.domain.rollouts import RolloutState, StepProgress


class PlannedStepAnswer(Answer):
    percent: float = Field(description="Of the audience, earlier steps included.")
    hold_minutes: float = Field(description="How long it is watched before the next step.")


class RolloutStepAnswer(PlannedStepAnswer):
    step: int
    items: int = Field(description="How many messages are sent in this step.")
    state: RolloutState
    released_at: datetime | None
    released_by: str | None = Field(description="`plan`, or who advanced the rollout.")
    ended_at: datetime | None = Field(description="When everything of it had been sent.")
    hold_until: datetime | None
    halted_for: list[str] = Field(
        description="The limits of `pauseOn` that paused the launch during this step."
    )

    @classmethod
    def of(cls, step: StepProgress) -> "RolloutStepAnswer":
        return cls(
            step=step.step,
            percent=step.percent,
            hold_minutes=step.hold_seconds / 60,
            items=step.items,
            state=step.state,
            released_at=step.released_at,
            released_by=step.released_by,
            ended_at=step.ended_at,
            hold_until=step.hold_until,
            halted_for=step.halted_for.split(),
        )


def rollout_answers(steps: Sequence[StepProgress]) -> list[RolloutStepAnswer]:
    return [RolloutStepAnswer.of(step) for step in steps]

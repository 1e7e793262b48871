"""The `rollout` of a campaign document: its steps, and what a launch in steps needs."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from outrider.documents import Document
from outrider.domain.campaigns import PauseOn
from outrider.domain.rollouts import WHOLE_PERCENT, RolloutStep
from outrider.domain.states import Channel
from outrider.limits.campaigns import ROLLOUT_HOLD_MAX_MINUTES
from outrider.limits.receipts import DEFAULT_RATE_LIMITS, ROLLOUT_FAILURE_RATE

ROLLOUT_LIMITS = PauseOn(
    DEFAULT_RATE_LIMITS.bounced, DEFAULT_RATE_LIMITS.complained, ROLLOUT_FAILURE_RATE
)
"""Of a rollout without a `pauseOn`."""


class RolloutStepDocument(Document):
    percent: Annotated[float, Field(gt=0, le=WHOLE_PERCENT)]
    hold_minutes: Annotated[float, Field(ge=0, le=ROLLOUT_HOLD_MAX_MINUTES)] = 0

    def step(self) -> RolloutStep:
        return RolloutStep(self.percent, self.hold_minutes)


def check_steps(steps: Sequence[RolloutStepDocument]) -> None:
    percents = [step.percent for step in steps]
    for number, (before, after) in enumerate(pairwise(percents), start=1):
        if after <= before:
            raise ValueError(
                f"must reach more people with each step: [{number}].percent is {after:g}, after"
                f" {before:g}; each percent includes the steps before it"
            )
    if percents[-1] != WHOLE_PERCENT:
        raise ValueError(
            f"must end with everybody: the last percent is {percents[-1]:g}; add"
            f' {{"percent": {WHOLE_PERCENT}}}'
        )
    if steps[-1].hold_minutes:
        raise ValueError("has a holdMinutes in its last step, after which nothing follows")


def check_channels(channels: Iterable[Channel]) -> None:
    if Channel.SOCIAL in channels:
        raise ValueError(
            "cannot divide a social post, which everybody sees at once; put it in a campaign of"
            " its own"
        )

"""`[stateStore]`: the write budget of run events."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from outrider.domain.run_events import RunEventType
from outrider.domain.write_budget import (
    DEFAULT_BUDGET_MS,
    DEFAULT_FAIL_OPEN,
    DEFAULT_NEVER_FAIL_OPEN,
    WriteBudget,
)


class StateStoreSettings(BaseModel):
    """The write budget of run events, in contract 002's own names."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    write_latency_budget_ms: int = Field(default=DEFAULT_BUDGET_MS, ge=1, le=600_000)
    """How long writing a run event may take."""
    fail_open_for_event_class: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_FAIL_OPEN)
    )
    """Events that do not hold up work when the budget is exceeded: they are written later."""
    never_fail_open: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_NEVER_FAIL_OPEN)
    )
    """Events that always do."""

    @model_validator(mode="after")
    def _no_event_both_ways(self) -> Self:
        both = set(self.fail_open_for_event_class) & set(self.never_fail_open)
        if both:
            raise ValueError(
                f"{', '.join(sorted(both))} cannot be both fail-open and never fail-open"
            )
        others = set(self.fail_open_for_event_class) - DEFAULT_FAIL_OPEN
        if others:
            raise ValueError(f"only StepStarted may fail open, not {', '.join(sorted(others))}")
        return self

    def budget(self) -> WriteBudget:
        return WriteBudget(
            self.write_latency_budget_ms,
            frozenset(self.fail_open_for_event_class),
            frozenset(self.never_fail_open),
        )

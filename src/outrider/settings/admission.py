"""`[admission]`: how much a workspace may have in progress at once."""

from pydantic import BaseModel, ConfigDict, Field

from outrider.domain.admission import AdmissionRule, OverloadPolicy


class AdmissionSettings(BaseModel):
    """How much a workspace may have in progress, and what happens to a run beyond that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: OverloadPolicy = OverloadPolicy.QUEUE
    """What happens to a run for which there is no room."""
    concurrent_runs: int | None = Field(default=None, ge=1)
    """How many runs a workspace may have in progress."""
    waiting_items: int | None = Field(default=None, ge=1)
    """How many items of a workspace may be waiting."""
    retry_after_seconds: int = Field(default=30, ge=1, le=86_400)
    """What a refused client is asked to wait."""
    delay_seconds: int = Field(default=60, ge=1, le=86_400)
    """How long a delayed run waits."""

    def rule(self) -> AdmissionRule:
        return AdmissionRule(
            self.policy,
            self.concurrent_runs,
            self.waiting_items,
            self.retry_after_seconds,
            self.delay_seconds,
        )


class AdmissionTable(AdmissionSettings):
    """`[admission]` applies to all; `[admission.workspaces."project/environment"]` to one."""

    workspaces: dict[str, AdmissionSettings] = Field(default_factory=dict)
    """What differs for one workspace."""

    def rule_of(self, project: str, environment: str) -> AdmissionRule:
        return self.workspaces.get(f"{project}/{environment}", self).rule()

"""Submission targets on the wire: their contract, settings and current state."""

from pydantic import Field

from outrider.api.models.admin import TargetAnswer, TargetStanding
from outrider.api.models.common import Answer
from outrider.domain.contracts import contract_document
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.retry import usual_schedule
from outrider.domain.states import Channel
from outrider.domain.submission import Contract, GatewayType
from outrider.domain.targets import TargetPolicy
from outrider.kernel.transactions.targets import TargetLoad
from outrider.settings import TargetSettings


class TargetExecution(Answer):
    """An operator's settings; none of them is a contract term, and none is a secret."""

    rate_per_second: float | None
    burst: int
    breaker_failures: int
    breaker_seconds: float
    retry_first_seconds: float
    retry_factor: float
    retry_cap_seconds: float
    timeout_seconds: float | None = Field(
        description="Null if the gateway family's default applies."
    )
    concurrency: int | None = Field(description="Null if the gateway family's default applies.")
    fallback: str | None
    fallback_when_down: bool = Field(
        description="Whether items never attempted go to the fallback while the target is down."
    )
    warm_up: list[int] | None = Field(
        description="The most messages on each of its first days; null if there is no plan."
    )

    @classmethod
    def of(
        cls, settings: TargetSettings, policy: TargetPolicy, contract: Contract
    ) -> "TargetExecution":
        usual = usual_schedule(contract.gateway_type, contract.acceptance_seconds)
        retry = policy.retry or usual
        return cls(
            rate_per_second=policy.rate_per_second,
            burst=policy.burst,
            breaker_failures=policy.breaker_failures,
            breaker_seconds=policy.breaker_seconds,
            retry_first_seconds=retry.first_seconds,
            retry_factor=retry.factor,
            retry_cap_seconds=retry.cap_seconds,
            timeout_seconds=settings.timeout_seconds,
            concurrency=settings.concurrency,
            fallback=policy.fallback,
            fallback_when_down=policy.fallback_when_down,
            warm_up=settings.warm_up,
        )


class TargetLine(TargetAnswer):
    channel: Channel
    remembers_references: str = Field(
        description="How long its provider recognises a reference: `never`, `in_flight`, a"
        " duration such as `24h`, or `for_good`. Only on that word is a silent call repeated."
    )
    looks_up: bool = Field(description="Whether its provider can be asked what it received.")
    execution: TargetExecution
    open_jobs: int = Field(description="Unfinished jobs of the workspace.")
    in_doubt: int = Field(description="Items of the workspace in doubt.")

    @classmethod
    def whole(
        cls,
        contract: Contract,
        gateway: GatewayType,
        memory: ReferenceMemory,
        standing: TargetStanding | None,
        execution: TargetExecution,
        load: TargetLoad,
    ) -> "TargetLine":
        return cls.model_validate(
            {
                **contract_document(contract),
                "state": standing,
                "channel": gateway.channel,
                "remembersReferences": str(memory),
                "looksUp": gateway.looks_up,
                "execution": execution,
                "openJobs": load.open_jobs,
                "inDoubt": load.in_doubt,
            }
        )


class TargetsAnswer(Answer):
    targets: list[TargetLine]


class TargetControlled(Answer):
    """A target after a control."""

    submission_target: str
    changed: bool
    state: TargetStanding | None
    success: bool

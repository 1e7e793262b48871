"""The registry in force, and what operators and gateway families declare about each target."""

from functools import cached_property
from pathlib import Path

from outrider.bootstrap.base import Wiring
from outrider.documents.registry import Registry, parse_registry
from outrider.documents.registry_file import LocalRegistryFile
from outrider.domain.domain_limits import DomainLimits, DomainShaping
from outrider.domain.reference_memory import NEVER, ReferenceMemory, memory_of
from outrider.domain.retry import DIRECT, RetrySchedule
from outrider.domain.targets import TargetPolicy
from outrider.domain.warm_up import WarmUpPlan
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.kernel.contracts.registry_follower import RegistryFollower
from outrider.kernel.contracts.registry_keeper import RegistryKeeper
from outrider.kernel.contracts.target_keeper import TargetKeeper
from outrider.secrets.scopes import ScopedSecrets, owners_of
from outrider.secrets.store import load_secrets
from outrider.settings import Settings, TargetSettings


def make_gateways(settings: Settings) -> Gateways:
    return Gateways(
        ScopedSecrets(load_secrets(), owners_of(settings.targets)),
        mail_from=settings.mail_from,
        targets=settings.targets,
        allow_private=settings.allow_private_gateways,
        public_url=settings.public_url,
    )


def load_registry(path: Path) -> Registry:
    return parse_registry(LocalRegistryFile(path).read(), GATEWAY_TYPES)


def target_policy(settings: TargetSettings) -> TargetPolicy:
    """An operator's settings of a target as the kernel's own values."""
    rate = settings.rate_per_second
    return TargetPolicy(
        rate_per_second=rate,
        connections=settings.connections,
        burst=settings.burst or max(1, int(rate or 1)),
        breaker_failures=settings.breaker_failures,
        breaker_seconds=settings.breaker_seconds,
        retry=_retry(settings),
        fallback=settings.fallback,
        fallback_when_down=settings.fallback_when_down,
        warm_up=_warm_up(settings.warm_up, settings.warm_up_zone),
        domains=_domains(settings),
    )


def _domains(settings: TargetSettings) -> DomainShaping | None:
    rate, connections = settings.domain_rate_per_second, settings.domain_connections
    days = settings.domain_warm_up
    if not (settings.shape_domains or rate or connections or days or settings.domains):
        return None
    zone = settings.warm_up_zone
    named = {
        domain.lower(): DomainLimits(
            each.rate_per_second, each.connections, _warm_up(each.warm_up, zone)
        )
        for domain, each in settings.domains.items()
    }
    return DomainShaping(DomainLimits(rate, connections, _warm_up(days, zone)), named)


def _warm_up(days: list[int] | None, zone: str) -> WarmUpPlan | None:
    return None if days is None else WarmUpPlan(tuple(days), zone)


def _retry(settings: TargetSettings) -> RetrySchedule | None:
    """None if nothing is set: then the default of the target's gateway type applies."""
    first, factor = settings.retry_first_seconds, settings.retry_factor
    cap = settings.retry_cap_seconds
    if first is None and factor is None and cap is None:
        return None
    return RetrySchedule(
        DIRECT.first_seconds if first is None else first,
        DIRECT.factor if factor is None else factor,
        DIRECT.cap_seconds if cap is None else cap,
    )


class ContractRoles(Wiring):
    @cached_property
    def registry_keeper(self) -> RegistryKeeper:
        return RegistryKeeper(
            LocalRegistryFile(self.settings.registry),
            lambda raw: parse_registry(raw, GATEWAY_TYPES).contracts,
        )

    @cached_property
    def registry_follower(self) -> RegistryFollower:
        return RegistryFollower(self.foundation, self.registry_keeper)

    @property
    def registry(self) -> Registry:
        """As currently in force; a reload replaces it."""
        return Registry(dict(self.registry_keeper.contracts()))

    @cached_property
    def target_keeper(self) -> TargetKeeper:
        return TargetKeeper(self.foundation)

    @cached_property
    def policies(self) -> dict[str, TargetPolicy]:
        return {name: target_policy(each) for name, each in self.settings.targets.items()}

    def target_settings(self, submission_target: str) -> TargetSettings:
        return self.settings.targets.get(submission_target, TargetSettings())

    def fallback_of(self, submission_target: str) -> str | None:
        policy = self.policies.get(submission_target)
        return policy.fallback if policy else None

    def reference_memory(self, submission_target: str) -> ReferenceMemory:
        """How long it is declared to remember references; for a removed target, never."""
        contract = self.registry_keeper.contracts().get(submission_target)
        if contract is None:
            return NEVER
        documented = GATEWAY_TYPES[contract.gateway_type].remembers
        return memory_of(documented, self.target_settings(submission_target).reference_memory)

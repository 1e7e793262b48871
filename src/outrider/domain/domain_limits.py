"""What a target may send to each recipient domain, and which answers are about a domain alone."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from outrider.domain.call_results import CallResult, Closes, Throttled
from outrider.domain.warm_up import WarmUpPlan

BACKOFF_MOST_SECONDS = 300.0
"""How long a mailbox provider that keeps deferring is left alone before the next message tries."""
_OF_ONE_MAILBOX = re.compile(r"^4\d\d[ -]4\.[12]\.|gr[ae]y-?list", re.IGNORECASE)
"""A full mailbox, or a greylist that asks each message to come again, says nothing of others."""


@dataclass(frozen=True, slots=True)
class DomainLimits:
    """Of one recipient domain, or of all domains of one mailbox provider."""

    rate_per_second: float | None = None
    connections: int | None = None
    warm_up: WarmUpPlan | None = None


UNLIMITED = DomainLimits()


@dataclass(frozen=True, slots=True)
class DomainShaping:
    """The limits of each domain, and those of all others. Without any, only backoff is learned."""

    usual: DomainLimits = UNLIMITED
    named: Mapping[str, DomainLimits] = field(default_factory=dict)

    def limits(self, domain: str) -> DomainLimits:
        return self.named.get(domain, self.usual)

    @property
    def warms_up(self) -> bool:
        """Whether any domain has a warm-up plan."""
        return any(each.warm_up is not None for each in (self.usual, *self.named.values()))


def domain_of(address: str | None) -> str | None:
    """None: it is not a mail address."""
    _, at, domain = (address or "").rpartition("@")
    return domain.lower().rstrip(".") if at and domain else None


def about_the_domain(result: CallResult, names: Collection[str]) -> Throttled | None:
    """The result as one about this recipient's domain alone, if it is one: it defers the recipient
    that was named, or its words name the domain or its mailbox provider."""
    if not isinstance(result, Throttled):
        return None
    if result.closes is Closes.THE_ITEM:
        return None if _OF_ONE_MAILBOX.search(result.detail) else result
    if not any(_names(result.detail, name) for name in names):
        return None
    return replace(result, closes=Closes.THE_ITEM)


def _names(detail: str, domain: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(domain)}(?![\w-])", detail, re.IGNORECASE) is not None

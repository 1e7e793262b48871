"""The warm-up keeper: which targets and which of their recipient domains follow a warm-up plan, and
what this process knows of each.

The plans are counted in the transaction that opens a window (`transactions/warm_ups.py`). What is
known here only avoids preparing messages that could not go today.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from cachetools import LRUCache

from outrider.domain.domain_limits import DomainShaping
from outrider.domain.targets import TargetPolicy
from outrider.domain.warm_up import WarmUp
from outrider.kernel.delivery.domain_names import bucket_names
from outrider.limits.kernel import Limits
from outrider.ports.mail_providers import MailProviders

PlansOf = Callable[[str | None], Sequence[WarmUp]]
"""The plans that a message to this address counts in."""


class WarmUpKeeper:
    def __init__(
        self,
        policies: Mapping[str, TargetPolicy],
        providers: Callable[[], MailProviders] | None = None,
        domains_known: int = Limits.domains_known,
    ) -> None:
        self._warm_ups = {
            target: WarmUp(target, policy.warm_up)
            for target, policy in policies.items()
            if policy.warm_up is not None
        }
        self._shapings = {
            target: policy.domains
            for target, policy in policies.items()
            if policy.domains is not None and policy.domains.warms_up
        }
        self._providers = providers
        self._domains: LRUCache[tuple[str, str], WarmUp] = LRUCache(domains_known)

    def of(self, submission_target: str) -> WarmUp | None:
        """None: it has no plan for all its messages, or that is over."""
        found = self._warm_ups.get(submission_target)
        return None if found is None or found.is_over else found

    def is_warming(self, submission_target: str) -> bool:
        """Whether its messages, or some of them, count in a plan."""
        return self.of(submission_target) is not None or submission_target in self._shapings

    async def plans(
        self, submission_target: str, addresses: Collection[str | None]
    ) -> PlansOf | None:
        """The plans of messages to these addresses; None: there is none for any of them."""
        own = self.of(submission_target)
        shaping = self._shapings.get(submission_target)
        if shaping is None or self._providers is None:
            return None if own is None else lambda _: (own,)
        names = await bucket_names(self._providers(), shaping, addresses)
        found: dict[str | None, list[WarmUp]] = {}
        for address, name in names.items():
            of_domain = self._of_domain(submission_target, shaping, name)
            found[address] = [each for each in (own, of_domain) if each is not None]
        return found.__getitem__ if any(found.values()) else None

    def _of_domain(self, target: str, shaping: DomainShaping, name: str) -> WarmUp | None:
        plan = shaping.limits(name).warm_up if name else None
        if plan is None:
            return None
        known = self._domains.get((target, name))
        if known is None:
            known = self._domains[target, name] = WarmUp(target, plan, name)
        return None if known.is_over else known

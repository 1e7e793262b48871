"""The warm-up keeper: which targets follow a warm-up plan, and what this process knows of each.

The plan itself is counted in the transaction that opens a window (`transactions/warm_ups.py`). What
is known here only avoids preparing messages that could not go today.
"""

from collections.abc import Mapping

from outrider.domain.targets import TargetPolicy
from outrider.domain.warm_up import WarmUp


class WarmUpKeeper:
    def __init__(self, policies: Mapping[str, TargetPolicy]) -> None:
        self._warm_ups = {
            target: WarmUp(target, policy.warm_up)
            for target, policy in policies.items()
            if policy.warm_up is not None
        }

    def of(self, submission_target: str) -> WarmUp | None:
        """None: it has no plan, or its plan is over."""
        found = self._warm_ups.get(submission_target)
        return None if found is None or found.is_over else found

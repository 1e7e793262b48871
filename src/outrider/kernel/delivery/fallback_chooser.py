"""The fallback chooser: whether items that were never attempted go to their target's fallback.

They are provably not taken by anybody, so the target may let them go elsewhere while its breaker is
open. Nobody goes around when a probe is due, because only a real call can open the door again.
"""

from outrider.domain.ids import Scope
from outrider.domain.submission import Contract
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.warm_up_keeper import WarmUpKeeper


class FallbackChooser:
    def __init__(self, gate: TargetGate, warm_ups: WarmUpKeeper) -> None:
        self._gate = gate
        self._warm_ups = warm_ups

    def goes_around(self, scope: Scope, contract: Contract, other: Contract) -> bool:
        """Whether the target is down, wants it, and the fallback is neither down nor new itself."""
        if not self._gate.policy(contract.submission_target).fallback_when_down:
            return False
        if self._warm_ups.is_warming(other.submission_target):
            return False
        return self._is_down(scope, contract) and not self._is_down(scope, other)

    def _is_down(self, scope: Scope, contract: Contract) -> bool:
        target, url = contract.submission_target, contract.gateway_url
        return self._gate.is_down(self._gate.door_key(scope, target, url))

"""The `noop` gateway type: accepts everything in process, at once.

It is for measuring the kernel's own cost; nothing ever leaves the machine.
"""

from collections.abc import Mapping, Sequence

from outrider.domain.call_results import Accepted, CallResult, NotBegun
from outrider.domain.evidence import LookedUp
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import FOR_GOOD
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.family import Family
from outrider.limits.gateways import HTTP_WINDOW_ITEMS
from outrider.ports.gateway import LookUpQuestion, Reservation
from outrider.ports.target_check import CheckFinding

NOOP = GatewayType("noop", Channel.SMS, frozenset(), remembers=FOR_GOOD)
"""Nothing is ever delivered, so nothing is delivered twice."""

_ACCEPTED = Accepted()
_NOT_BEGUN = NotBegun("withheld")


class NoopGateway:
    type = NOOP
    memory = FOR_GOOD
    window_items = HTTP_WINDOW_ITEMS
    concurrency = 1
    looks_up = None
    recipe = ""
    records = ""

    async def call(self, reservation: Reservation) -> CallResult:
        return _ACCEPTED if reservation.begin() else _NOT_BEGUN

    async def look_up(
        self,
        questions: Sequence[LookUpQuestion],  # noqa: ARG002
    ) -> Mapping[IdempotencyKey, LookedUp]:
        return {}

    async def trim(self, connections: int) -> None:
        pass

    async def close(self) -> None:
        pass

    async def check(self, seconds: float) -> CheckFinding | None:  # noqa: ARG002
        return None


FAMILY = Family(NOOP, lambda _target: NoopGateway())

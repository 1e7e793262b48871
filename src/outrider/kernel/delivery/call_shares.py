"""Call shares: how many calls to each target this process may have in flight.

As many as its gateway makes at once; fewer if all workers together may make fewer, because the
target's settings or its provider say so. The database divides those among the workers.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import WorkerId
from outrider.domain.targets import TargetPolicy
from outrider.kernel.delivery.call_slots import CallSlots
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import DoorKey, TargetState
from outrider.ports.gateway import Gateway

log = structlog.get_logger()

SHARES_LAST = 3
"""A worker that does not renew its share for so many intervals has none."""


class CallShares:
    def __init__(
        self,
        foundation: Foundation,
        policy_of: Callable[[str], TargetPolicy],
        worker_id: WorkerId,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._lasts = timedelta(seconds=foundation.limits.share_seconds)
        self._policy_of = policy_of
        self._worker_id = worker_id
        self._slots: dict[DoorKey, CallSlots] = {}
        self._gateways: dict[DoorKey, Gateway] = {}
        self._ours_until: dict[DoorKey, datetime] = {}

    def slots(self, shared: DoorKey, gateway: Gateway) -> CallSlots:
        """With a share, none until it is known."""
        if shared not in self._slots:
            is_shared = self._policy_of(shared.submission_target).connections is not None
            self._slots[shared] = CallSlots(0 if is_shared else gateway.concurrency)
        self._gateways[shared] = gateway
        return self._slots[shared]

    def in_flight(self, shared: DoorKey) -> int:
        slots = self._slots.get(shared)
        return slots.in_use if slots is not None else 1

    def is_known(self, shared: DoorKey, now: datetime) -> bool:
        """Whether calls may begin without asking: no setting divides them among the workers, or our
        share is still ours."""
        if self._policy_of(shared.submission_target).connections is None:
            return True
        slots = self._slots.get(shared)
        return slots is not None and slots.capacity > 0 and self._is_ours(shared, now)

    async def is_full(
        self, shared: DoorKey, gateway: Gateway, state: TargetState, now: datetime
    ) -> bool:
        """If calls are divided among the workers: whether none is left for this one."""
        slots = self.slots(shared, gateway)
        is_throttled = state.shared is not None and state.shared.slots is not None
        if not is_throttled and self._policy_of(shared.submission_target).connections is None:
            if slots.capacity != gateway.concurrency:
                slots.resize(gateway.concurrency)
            return False
        if not self._is_ours(shared, now):
            await self._renew(shared, gateway, now)
        return slots.capacity == 0

    async def keep(self) -> None:
        """Renew the shares of targets with limited connections while calls are in flight there: a
        slow call counts as long as it takes. Runs until cancelled."""
        while True:
            await self._clock.sleep(self._lasts.total_seconds())
            now = self._clock.now()
            for shared, slots in list(self._slots.items()):
                is_limited = self._policy_of(shared.submission_target).connections is not None
                if not slots.in_use or not is_limited or self._is_ours(shared, now):
                    continue
                try:
                    await self._renew(shared, self._gateways[shared], now)
                except StoreUnavailable as error:
                    log.warning("share_not_renewed", error=error.message)

    def _is_ours(self, shared: DoorKey, now: datetime) -> bool:
        return shared in self._ours_until and now < self._ours_until[shared]

    async def _renew(self, shared: DoorKey, gateway: Gateway, now: datetime) -> None:
        slots, policy = self._slots[shared], self._policy_of(shared.submission_target)
        part = await self._store.write(
            targets.renew_share(
                shared, policy, self._worker_id, gateway.concurrency, slots.in_use,
                SHARES_LAST * self._lasts, now,
            )
        )  # fmt: skip
        self._ours_until[shared] = now + self._lasts
        slots.resize(gateway.concurrency if part is None else part)
        await gateway.trim(slots.capacity)

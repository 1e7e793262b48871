"""The door sweeper: opens doors that nothing uses any more, so that their alerts end.

A door opens when a call through it is answered. After a registry has been corrected, nobody calls
the old address again, and its door would stay closed for good.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import structlog

from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.submission import Contract
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import blockers, targets
from outrider.kernel.transactions.targets import DoorKey

log = structlog.get_logger()


class DoorSweeper:
    def __init__(
        self, foundation: Foundation, contracts_in_force: Callable[[], Mapping[str, Contract]]
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._contracts_in_force = contracts_in_force
        self._contracts = ContractCache(foundation.store)

    async def sweep(self) -> list[DoorKey]:
        """The doors that were forgotten: the registry has another address, no open job uses theirs,
        and nobody has called there although the time to try again has come."""
        named = self._named()
        if not named:
            # It could not be read: that says nothing about any door.
            return []
        now, most = self._clock.now(), self._limits.page_items
        before = now - timedelta(seconds=self._limits.door_unused_seconds)
        closed = (await self._store.read(blockers.targets_now(most))).doors
        unused = {
            key
            for key, door in closed.items()
            if key.place not in named and door.opens_at is not None and door.opens_at < before
        }
        if unused:
            used = await self._used()
            unused = {key for key in unused if key.place not in used}
        if not unused:
            return []
        forgotten = sorted(unused)
        await self._store.write(targets.forget_doors(forgotten, most, now))
        for key in forgotten:
            log.info(
                "target_door_forgotten", submission_target=key.submission_target,
                gateway_url=key.gateway_url, workspace_id=key.workspace_id or None,
            )  # fmt: skip
        return forgotten

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.door_sweep_seconds)
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("doors_not_swept", error=error.message)

    def _named(self) -> set[tuple[str, str]]:
        try:
            return _places(self._contracts_in_force().values())
        except InvalidInput:
            return set()

    async def _used(self) -> set[tuple[str, str]]:
        ids = await self._store.read(targets.open_contracts())
        return _places([await self._contracts.by_id(each) for each in ids])


def _places(contracts: Iterable[Contract]) -> set[tuple[str, str]]:
    return {(each.submission_target, each.gateway_url) for each in contracts}

"""The lane cache: contract snapshots and lanes by target, read from the store once.

Both are created and never removed, so a committed entry stays valid.
"""

from collections.abc import Collection, Mapping

from cachetools import LRUCache

from outrider.domain.ids import JobId, Scope
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.submissions import Lane, LaneTargets
from outrider.limits.delivery import LANES_REMEMBERED_MAX


class LaneCache:
    def __init__(self) -> None:
        self._contract_ids: LRUCache[str, int] = LRUCache(LANES_REMEMBERED_MAX)
        self._lanes: LRUCache[tuple[Scope, Lane], JobId] = LRUCache(LANES_REMEMBERED_MAX)

    def find(
        self, scope: Scope, contracts: Mapping[str, ContractSnapshot], wanted: Collection[Lane]
    ) -> LaneTargets | None:
        """None unless all of them are known."""
        try:
            return LaneTargets(
                {target: self._contract_ids[each.sha256] for target, each in contracts.items()},
                {lane: self._lanes[scope, lane] for lane in wanted},
            )
        except KeyError:
            return None

    def put(
        self, scope: Scope, contracts: Mapping[str, ContractSnapshot], committed: LaneTargets
    ) -> None:
        for target, contract_id in committed.contract_ids.items():
            self._contract_ids[contracts[target].sha256] = contract_id
        for lane, job_id in committed.lanes.items():
            self._lanes[scope, lane] = job_id

    def clear(self) -> None:
        self._contract_ids.clear()
        self._lanes.clear()

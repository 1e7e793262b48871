"""The contract cache: contracts as items were submitted under them, read once and remembered.

Storing one takes a snapshot: the contract in force now is the one that the item keeps.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec
from cachetools import LRUCache

from outrider.domain.contracts import contract_from_document, contract_sha256, contract_text
from outrider.domain.errors import InvalidInput
from outrider.domain.submission import Contract
from outrider.kernel.transactions import contract_documents
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.limits.contracts import CONTRACTS_REMEMBERED_MAX
from outrider.ports.store import Store


class ContractCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_id: LRUCache[int, Contract] = LRUCache(CONTRACTS_REMEMBERED_MAX)

    async def by_id(self, contract_id: int) -> Contract:
        """Snapshots are immutable, so a cached one stays valid."""
        known = self._by_id.get(contract_id)
        if known is None:
            text = await self._store.read(contract_documents.contract_document(contract_id))
            known = self._by_id[contract_id] = _contract(text)
        return known


def snapshots(
    targets: Iterable[str],
    in_force: Mapping[str, Contract],
    fallback_of: Callable[[str], str | None],
) -> dict[str, ContractSnapshot]:
    """The contracts of these targets and of their fallbacks, which a worker may need later."""
    taken: dict[str, ContractSnapshot] = {}
    for target in sorted(targets):
        contract = in_force.get(target)
        if contract is None:
            raise InvalidInput(
                f"the registry has no submission target '{target}'",
                hint=f"add it to the registry, which has: {', '.join(sorted(in_force)) or 'none'}",
            )
        fallback = in_force.get(fallback_of(target) or "")
        for each in (contract, fallback) if fallback else (contract,):
            taken[each.submission_target] = snapshot_of(each)
    return taken


@lru_cache(maxsize=CONTRACTS_REMEMBERED_MAX)
def snapshot_of(contract: Contract) -> ContractSnapshot:
    return ContractSnapshot(
        contract_sha256(contract),
        contract_text(contract),
        contract.acceptance_seconds,
        contract.mode,
    )


def _contract(text: str) -> Contract:
    return contract_from_document(msgspec.json.decode(text))

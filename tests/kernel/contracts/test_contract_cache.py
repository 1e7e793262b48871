"""The contract cache: what an item was submitted under, read once; and snapshots of contracts."""

from dataclasses import replace

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput
from outrider.kernel.contracts.contract_cache import ContractCache, snapshots
from tests.support.counted_store import CountedStore
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.raw_sql import raw_sql


async def test_a_contract_that_items_were_submitted_under_is_read_once(
    noop_outrider: Outrider,
) -> None:
    await noop_launch(noop_outrider)
    async with raw_sql(noop_outrider.settings.database_url) as raw:
        [(contract_id,)] = await raw.run("SELECT id FROM contract_snapshots")
    store = CountedStore(noop_outrider.store)
    cache = ContractCache(store)
    found = await cache.by_id(contract_id)
    assert found == noop_outrider.registry_keeper.contracts()[NOOP]
    assert await cache.by_id(contract_id) is found
    assert store.reads == 1


async def test_snapshots_are_of_the_targets_and_their_fallbacks(noop_outrider: Outrider) -> None:
    own = noop_outrider.registry_keeper.contracts()[NOOP]
    in_force = {NOOP: own, "other": replace(own, submission_target="other")}
    taken = snapshots([NOOP], in_force, {NOOP: "other"}.get)
    assert set(taken) == {NOOP, "other"}
    with pytest.raises(InvalidInput, match="no submission target 'unknown'"):
        snapshots(["unknown"], in_force, lambda _: None)

"""The run sealer: a run is sealed at its end, again if there is more, never over tampering."""

import asyncio
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.merkle import root_of
from outrider.domain.seals import unpacked
from outrider.kernel.proof import run_sealer
from outrider.kernel.transactions import seals
from outrider.kernel.transactions.seals import Tree
from outrider.limits.proof import RESEAL_FIRST_SECONDS, RESEAL_UNTIL_SECONDS
from outrider.ports.store import Store
from outrider.secrets.signing import is_signed
from tests.support.noop_launches import noop_launch
from tests.support.seal_scene import SealScene
from tests.support.tampering import tampering
from tests.support.whole_runs import work_until_terminal


async def test_a_run_is_sealed_when_it_has_ended_and_not_before(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    assert await noop_outrider.run_sealer.seal_due() == 0
    await work_until_terminal(noop_outrider, run_id)
    assert await noop_outrider.run_sealer.seal_due() == 1
    assert await noop_outrider.run_sealer.seal_due() == 0
    (stored,) = await noop_outrider.store.read(seals.of_run(run_id))
    seal = stored.parsed()
    assert (seal.ledger_rows, seal.open_rows, seal.receipts) == (3, 0, 0)
    assert is_signed(
        noop_outrider.evidence_key.public_key, stored.document.encode(), stored.signature
    )
    assert not is_signed(
        noop_outrider.evidence_key.public_key, stored.document.encode() + b" ", stored.signature
    )


async def test_the_leaves_of_many_pages_have_the_root_of_the_seal(
    store: Store, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SealScene(store, database, tmp_path / "keys")
    run_id, items = await scene.ended(7)
    monkeypatch.setattr(run_sealer, "SEAL_PAGE_ROWS", 3)
    await scene.sealer.seal_due()
    (stored,) = await scene.seals(run_id)
    leaves = []
    for page in range(3):
        content = await store.read(seals.sealed_page(run_id, Tree.LEDGER, page, 1))
        leaves += list(unpacked(content or b""))
    assert {leaf.id for leaf in leaves} == set(items)
    assert root_of([leaf.hash for leaf in leaves]).hex() == stored.parsed().ledger_root


async def test_a_run_with_more_receipts_is_sealed_again_and_the_seals_are_a_chain(
    store: Store, database: str, tmp_path: Path
) -> None:
    scene = SealScene(store, database, tmp_path / "keys")
    run_id, items = await scene.sealed()
    await scene.reported(items[0])
    assert await scene.sealer.seal_due() == 0
    scene.clock.advance(RESEAL_FIRST_SECONDS + 1)
    assert await scene.sealer.seal_due() == 1
    first, second = await scene.seals(run_id)
    assert (first.parsed().receipts, second.parsed().receipts) == (0, 1)
    assert second.parsed().previous == first.parsed().hash()
    assert second.parsed().ledger_root == first.parsed().ledger_root
    assert second.salt == first.salt
    scene.clock.advance(RESEAL_UNTIL_SECONDS)
    assert await scene.sealer.seal_due() == 0


async def test_nothing_new_makes_no_seal_and_an_old_run_is_left_alone(
    store: Store, database: str, tmp_path: Path
) -> None:
    scene = SealScene(store, database, tmp_path / "keys")
    run_id, items = await scene.sealed()
    for _ in range(3):
        scene.clock.advance(RESEAL_UNTIL_SECONDS / 2)
        assert await scene.sealer.seal_due() == 0
    await scene.reported(items[0])
    scene.clock.advance(RESEAL_UNTIL_SECONDS * 3)
    assert await scene.sealer.seal_due() == 0
    assert len(await scene.seals(run_id)) == 1


async def test_a_changed_row_is_not_sealed_over(
    store: Store, database: str, tmp_path: Path
) -> None:
    scene = SealScene(store, database, tmp_path / "keys")
    run_id, items = await scene.sealed()
    async with tampering(database) as raw:
        await raw.run(f"UPDATE channel_outbox SET provider = 'other' WHERE id = '{items[1]}'")
    await scene.reported(items[0])
    scene.clock.advance(RESEAL_FIRST_SECONDS + 1)
    assert await scene.sealer.seal_due() == 0
    assert len(await scene.seals(run_id)) == 1
    assert await scene.findings() == [("ledger_row", "edited", items[1])]


async def test_sealers_beside_each_other_make_one_seal(
    store: Store, database: str, tmp_path: Path
) -> None:
    scene = SealScene(store, database, tmp_path / "keys")
    run_id, _ = await scene.ended()
    made = await asyncio.gather(*(scene.sealer.seal_due() for _ in range(4)))
    assert sum(made) == 1
    assert len(await scene.seals(run_id)) == 1

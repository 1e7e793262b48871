"""The audit chainer: every entry gets one place in its workspace's chain, whoever chains it."""

import asyncio

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.kernel.transactions import audit, chains
from outrider.kernel.transactions.audit import AuditEntry
from outrider.kernel.transactions.paging import FIRST


async def recorded(outrider: Outrider, scope: Scope, count: int) -> None:
    entries = [AuditEntry(scope, "test.recorded", "test") for _ in range(count)]
    await outrider.store.write(audit.record(entries, outrider.ids, outrider.clock.now()))


async def lengths(outrider: Outrider) -> dict[str, int]:
    heads = await outrider.store.read(chains.audit_heads_after(FIRST, 100))
    return {head.workspace_id: head.seq for head in heads}


async def test_each_workspace_has_a_chain_of_its_own(noop_outrider: Outrider) -> None:
    other = Scope(TenantId(noop_outrider.ids.new()), WorkspaceId(noop_outrider.ids.new()))
    await noop_outrider.audit_chainer.chain()
    before = (await lengths(noop_outrider)).get(DEFAULT_SCOPE.workspace_id, 0)
    await recorded(noop_outrider, DEFAULT_SCOPE, 3)
    await recorded(noop_outrider, other, 2)
    assert await noop_outrider.audit_chainer.chain() == 5
    assert await noop_outrider.audit_chainer.chain() == 0
    assert await lengths(noop_outrider) == {
        DEFAULT_SCOPE.workspace_id: before + 3,
        other.workspace_id: 2,
    }


async def test_chainers_beside_each_other_and_beside_writers_chain_each_entry_once(
    noop_outrider: Outrider,
) -> None:
    await asyncio.gather(
        *(recorded(noop_outrider, DEFAULT_SCOPE, 5) for _ in range(20)),
        *(noop_outrider.audit_chainer.chain() for _ in range(8)),
    )
    await noop_outrider.audit_chainer.chain()
    found = await noop_outrider.database_verifier.verify()
    assert found.findings == []
    assert found.waiting == 0
    assert sum((await lengths(noop_outrider)).values()) >= 100

"""The names of workspaces: looked up once, and no more of them kept than the limit says."""

from dataclasses import replace

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.access.workspace_names import WorkspaceNames
from tests.support.counted_store import CountedStore


async def test_a_name_is_read_once_while_there_is_room_for_it(noop_outrider: Outrider) -> None:
    keys = noop_outrider.key_keeper
    scopes = [DEFAULT_SCOPE, await keys.open_workspace("acme", "offers", "live")]
    store = CountedStore(noop_outrider.store)
    names = WorkspaceNames(store, replace(noop_outrider.limits, workspace_names=1))
    first, second = [await names.of(scope) for scope in scopes]
    assert str(second) == "acme/offers/live"
    assert first != second
    assert await names.of(scopes[1]) == second
    assert store.reads == 2
    assert await names.of(scopes[0]) == first
    assert store.reads == 3, "the one was forgotten for the other"

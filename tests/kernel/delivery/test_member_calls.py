"""Member calls: who waits for a domain keeps no row, and who has one waits in it."""

from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.kernel.transactions import ledger_items
from outrider.testing.launches import launch, message, until_terminal
from tests.support.domain_mail import BUSY, NAME, DomainServer, people_at, shaped
from tests.support.eventually import eventually
from tests.support.whole_runs import items_of, working

MAIL = message(Channel.EMAIL, NAME)
PEOPLE = 60


async def test_members_who_wait_have_no_row_and_called_ones_wait_in_theirs(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.deferred["slow.test"] = BUSY
    async with shaped(database, tmp_path, server, shape_domains=True) as outrider:
        run_id = await launch(outrider, [MAIL], people_at("slow.test", PEOPLE))
        async with working(outrider):

            async def some_wait_in_their_rows() -> bool:
                ids = [each.id for each in (await items_of(outrider, run_id)).values()]
                rows = await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, ids))
                return any(each.waits_for == "domain_throttled" for each in rows)

            await eventually(some_wait_in_their_rows)
            rows = await items_of(outrider, run_id)
            assert 0 < len(rows) < PEOPLE
            server.deferred.clear()
            accounting = await until_terminal(outrider, run_id, seconds=60)
        assert accounting.sent == PEOPLE
        rows = await items_of(outrider, run_id)
        assert {each.attempts for each in rows.values()} == {1}

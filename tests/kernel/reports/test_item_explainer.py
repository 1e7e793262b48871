"""The item explainer: says in sentences what happened to one item, from its own rows."""

from outrider.bootstrap import Outrider
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.transactions import ledger_items
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import items_of, work_until_terminal


async def test_a_message_that_was_sent_is_explained_by_its_one_attempt(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider, 1)
    await work_until_terminal(noop_outrider, run_id)
    (item,) = (await items_of(noop_outrider, run_id)).values()
    attempts = await noop_outrider.store.read(ledger_items.attempts_of(item.id))
    verdict, called = explain_item(item, attempts)
    assert "lead-0" in verdict
    assert "sent" in verdict
    assert called.startswith("Attempt 1")

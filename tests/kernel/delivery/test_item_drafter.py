"""The item drafter: of each member a draft, to be called or with the reason why it is not."""

from dataclasses import replace

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.testing.launches import launch, message, people
from tests.support.noop_launches import NOOP
from tests.support.whole_runs import items_of, work_until_terminal


async def test_every_member_is_rendered_or_says_why_it_was_not(noop_outrider: Outrider) -> None:
    """Through a real worker: the drafter's drafts are what the ledger shows."""
    reachable, *_ = people(1)
    nobody = recipient("without-phone", email="a@example.test")
    unnamed = recipient("without-name", phone="+447700900001")
    offer = message(Channel.SMS, NOOP, body="Hi {{ firstName }}")
    run_id = await launch(noop_outrider, [offer], [reachable, nobody, unnamed])
    accounting = await work_until_terminal(noop_outrider, run_id)
    items = await items_of(noop_outrider, run_id)
    assert (items["lead-0"].status, items["lead-0"].reason) == ("sent", None)
    assert (items["without-phone"].status, items["without-phone"].reason) == (
        "skipped",
        "no_address",
    )
    assert (items["without-name"].status, items["without-name"].reason) == (
        "failed",
        "render_failed",
    )
    assert (accounting.sent, accounting.skipped, accounting.failed) == (1, 1, 1)
    certificate = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert replace(certificate.accounting, delivery=None) == accounting

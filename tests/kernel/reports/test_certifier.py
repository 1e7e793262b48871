"""The certifier: a launch is certified when every criterion holds, and says which does not."""

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import work_until_terminal


async def test_a_run_is_certified_when_it_has_ended_and_not_before(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider)
    before = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert not before.holds
    await work_until_terminal(noop_outrider, run_id)
    after = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert after.holds, after.criteria
    assert after.accounting.sent == 3
    again = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert again.digest == after.digest != before.digest

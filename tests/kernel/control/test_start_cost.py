"""Starting a phase asks the database for nothing that it already knows."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId, Scope
from outrider.domain.phases import Action
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import audience_counts, campaigns
from outrider.kernel.transactions.audience_counts import CountedAudience
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer
from outrider.ports.store import Transaction
from outrider.testing.launches import ACTOR, observe, target
from tests.support.controls import created
from tests.support.whole_runs import opened


@pytest.fixture
async def outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    async with Sandbox() as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with opened(database, tmp_path, sms) as outrider:
            yield outrider


async def test_the_start_of_a_launch_reads_nothing_twice(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 30)
    asked: Counter[str] = Counter()

    def counted(script: Transaction[ControlAnswer]) -> Transaction[ControlAnswer]:
        try:
            statement = next(script)
            while True:
                asked[statement.name] += 1
                statement = script.send((yield statement))
        except StopIteration as done:
            answer: ControlAnswer = done.value
            return answer

    control = Control(Action.START, ACTOR, guard=counted)
    answer = await outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, LAUNCH, control)
    assert isinstance(answer.run_id, str)
    again = {name for name, times in asked.items() if times > 1}
    # Contracts are read again after new ones were written.
    assert again == {"contracts_by_sha256"}
    assert asked.total() == 24
    # All other writers wait for it on SQLite, so it is done before.
    assert not asked["count_batches"]


async def test_a_launch_counts_again_if_recipients_came_since(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await created(outrider, 30)
    before = CountedAudience(10, [(0, None, 10)])

    def outdated(
        _scope: Scope, _campaign_id: CampaignId, _run_id: RunId
    ) -> Transaction[CountedAudience]:
        yield from campaigns.phases_of(campaign_id)
        return before

    monkeypatch.setattr(audience_counts, "count_audience", outdated)
    answer = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
    )
    assert answer.run_id is not None
    _, accounting = await observe(outrider, answer.run_id)
    assert accounting.intended == 30

"""The rate pauser: a campaign that bounces, or is complained of, more than it allows is paused."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.documents.campaign import parse_campaign
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId
from outrider.domain.phases import Action
from outrider.domain.receipts import ReceiptEvent
from outrider.kernel.control.rate_pauser import ACTOR
from outrider.kernel.transactions import pause_rates, run_records
from outrider.kernel.transactions.campaigns import definition_document, read_definition
from outrider.kernel.transactions.phase_controls import Control
from outrider.ports.store import Store
from outrider.testing.launches import target
from outrider.testing.store_suite.workshop import ACCEPTED, NOON
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.receipt_scene import TARGET, Scene
from tests.support.whole_runs import opened

SENT = 150
TOO_MANY_BOUNCES = 8
"""Of 150, where 5 % may bounce."""


@dataclass(frozen=True)
class Launched:
    """A campaign of which 150 messages were sent, and which allows only so much to go wrong."""

    outrider: Outrider
    scene: Scene
    run_id: RunId
    campaign_id: CampaignId
    items: list[OutboxId]

    async def reported(self, event: ReceiptEvent, items: list[OutboxId]) -> None:
        for item in items:
            await self.scene.take(event, item)
        await self.scene.match()

    async def judged(self) -> str | None:
        return await self.outrider.rate_pauser.judge(DEFAULT_SCOPE, self.run_id)

    async def control(self, action: Action, reason: str | None = None) -> None:
        await self.outrider.phase_controller.control(
            DEFAULT_SCOPE, self.campaign_id, "launch", Control(action, "ann", reason=reason)
        )

    async def state(self) -> tuple[str, str | None]:
        found = await self.outrider.phase_controller.snapshot(DEFAULT_SCOPE, self.campaign_id)
        [launch] = found.phases
        return launch.state, launch.reason


@asynccontextmanager
async def launched(
    store: Store, database: str, folder: Path, pause_on: dict[str, float], sent: int = SENT
) -> AsyncIterator[Launched]:
    async with opened(database, folder, target(TARGET, "noop", "noop:")) as outrider:
        scene = Scene(store, NOON)
        run_id = await scene.shop.launch(200, batch_size=200)
        run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
        definition = {
            "name": "n", "phases": ["launch"], "messages": [], "batchSize": 200,
            "pauseOn": pause_on,
        }  # fmt: skip
        async with raw_sql(database) as raw:
            await raw.run(f"UPDATE campaigns SET definition = '{json.dumps(definition)}'")
        context = await scene.shop.claim_one()
        items = await scene.shop.open(context, *range(sent))
        await scene.shop.close(context, *((item, ACCEPTED) for item in items))
        yield Launched(outrider, scene, run_id, CampaignId(run.campaign_id), items)


@pytest.fixture
async def launch(store: Store, database: str, tmp_path: Path) -> AsyncIterator[Launched]:
    async with launched(store, database, tmp_path, {"bounceRate": 0.05}) as made:
        yield made


async def test_a_campaign_that_bounces_too_much_is_paused_once_with_the_reason(
    launch: Launched,
) -> None:
    await launch.reported(ReceiptEvent.BOUNCED, launch.items[: TOO_MANY_BOUNCES - 1])
    assert launch.scene.worse == [(DEFAULT_SCOPE, launch.run_id)]
    assert await launch.judged() is None
    await launch.reported(ReceiptEvent.BOUNCED, [launch.items[TOO_MANY_BOUNCES - 1]])
    reason = await launch.judged()
    assert reason == "8 of 150 sent messages bounced (5.33%), and pauseOn.bounceRate is 5.00%"
    assert await launch.state() == ("paused", reason)
    await launch.control(Action.RESUME)
    # Whoever resumed it has seen why.
    assert await launch.judged() is None


async def test_a_rate_that_got_worse_before_a_restart_is_checked_after_it(launch: Launched) -> None:
    """The matcher's process died after its commit: nobody was told."""
    await launch.reported(ReceiptEvent.BOUNCED, launch.items[:TOO_MANY_BOUNCES])
    role = asyncio.create_task(launch.outrider.rate_pauser.run())

    async def is_paused() -> bool:
        return (await launch.state())[0] == "paused"

    try:
        await eventually(is_paused)
    finally:
        role.cancel()


async def test_that_it_was_paused_is_found_however_much_was_recorded_before(
    store: Store, launch: Launched
) -> None:
    await launch.control(Action.PAUSE)
    await launch.control(Action.RESUME)
    await launch.reported(ReceiptEvent.BOUNCED, launch.items[:TOO_MANY_BOUNCES])
    assert await launch.judged() is not None
    await launch.control(Action.RESUME)
    script = pause_rates.reason_to_pause(DEFAULT_SCOPE, launch.run_id, ACTOR, page_items=1)
    _, reason = await store.read(script)
    assert reason is None


async def test_a_campaign_that_is_complained_of_too_much_is_paused(
    store: Store, database: str, tmp_path: Path
) -> None:
    async with launched(store, database, tmp_path, {"complaintRate": 0.01}) as launch:
        await launch.reported(ReceiptEvent.COMPLAINED, launch.items[:1])
        assert await launch.judged() is None
        await launch.reported(ReceiptEvent.COMPLAINED, launch.items[1:2])
        reason = await launch.judged()
        assert reason is not None
        assert "pauseOn.complaintRate is 1.00%" in reason
        assert await launch.state() == ("paused", reason)


async def test_a_launch_that_sets_a_lower_minimum_is_paused_before_100_messages(
    store: Store, database: str, tmp_path: Path
) -> None:
    limits = {"bounceRate": 0.05, "minimumMessages": 40}
    async with launched(store, database, tmp_path, limits, sent=50) as launch:
        await launch.reported(ReceiptEvent.BOUNCED, launch.items[:3])
        reason = await launch.judged()
        assert reason == "3 of 50 sent messages bounced (6.00%), and pauseOn.bounceRate is 5.00%"
        assert await launch.state() == ("paused", reason)


async def test_a_campaign_that_somebody_paused_keeps_their_reason(launch: Launched) -> None:
    await launch.reported(ReceiptEvent.BOUNCED, launch.items[:TOO_MANY_BOUNCES])
    await launch.control(Action.PAUSE, "lunch")
    assert await launch.judged() is None
    assert await launch.state() == ("paused", "lunch")


async def test_the_loop_pauses_a_run_that_was_reported_to_it(launch: Launched) -> None:
    await launch.reported(ReceiptEvent.BOUNCED, launch.items[:TOO_MANY_BOUNCES])
    pauser = launch.outrider.rate_pauser
    running = asyncio.create_task(pauser.run())

    async def is_paused() -> bool:
        return (await launch.state())[0] == "paused"

    try:
        pauser.note(frozenset(launch.scene.worse))
        await eventually(is_paused, what="the run was not paused")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def document(pause_on: str) -> bytes:
    return (
        '{"name": "n", "messages": [{"id": "m", "channel": "sms", "submissionTarget": "t",'
        f' "body": "Hi"}}], "pauseOn": {pause_on}}}'
    ).encode()


def test_a_campaign_can_set_the_rates_at_which_it_is_paused() -> None:
    parsed = parse_campaign(
        document('{"bounceRate": 0.05, "complaintRate": 0.003, "minimumMessages": 40}'),
        check_template=lambda *_: None,
        source_root=None,
    )
    pause_on = parsed.definition.pause_on
    assert pause_on is not None
    assert (pause_on.bounce_rate, pause_on.complaint_rate) == (0.05, 0.003)
    assert pause_on.minimum_messages == 40
    assert read_definition(definition_document(parsed.definition)).pause_on == pause_on


@pytest.mark.parametrize(
    "wrong", ['{"bounceRate": 5}', '{"rate": 0.1}', '{"bounceRate": 0}', '{"minimumMessages": 0}']
)
def test_a_rate_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput):
        parse_campaign(document(wrong), check_template=lambda *_: None, source_root=None)

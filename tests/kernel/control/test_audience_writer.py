"""Large audiences: short transactions, seen whole or not at all, on both stores. Audit line X11."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import CampaignDefinition, Message
from outrider.domain.errors import Conflict, InvalidInput, Overloaded
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.phases import AUDIENCE_IMPORT, Action
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.kernel.transactions import audience, campaigns, intakes, overview
from outrider.kernel.transactions.audience_scripts import AudienceAnswer
from outrider.kernel.transactions.paging import LAST
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.limits.kernel import Limits
from outrider.ports.store import Result, Transaction
from outrider.testing.launches import target
from tests.support.controls import control
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")
MANY = 2 * IMPORT_WINDOW_ITEMS + 500
ACTOR = "test"


@pytest.fixture
async def outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    limits = Limits(intake_wait_seconds=0.2, intake_poll_seconds=0.05, beside_lanes_seconds=3_600.0)
    async with opened(database, tmp_path, NOOP, limits=limits) as made:
        yield made


def definition(*phases: str) -> CampaignDefinition:
    message = Message("offer", Channel.SMS, "noop", "Hi")
    return CampaignDefinition("Large", phases or ("launch",), (message,), 500)


def people(count: int, first: int = 0) -> Iterator[Recipient]:
    for number in range(first, first + count):
        yield recipient(f"lead-{number}", phone=f"+4477{number:08d}")


def file_of(folder: Path, count: int, first: int = 100_000) -> Path:
    path = folder / f"more-{first}.csv"
    lines = [f"lead-{number},+4477{number:08d}" for number in range(first, first + count)]
    path.write_text("\n".join(["id,phone", *lines]))
    return path


async def names(outrider: Outrider) -> list[str]:
    page = await outrider.store.read(overview.overview_page(DEFAULT_SCOPE, LAST, 10))
    return [each.name for each in page.campaigns]


async def left_over(database: str) -> dict[str, int]:
    async with raw_sql(database) as raw:
        tables = ("audience_members", "audience_uploads", "audience_intakes", "address_pages")
        return {table: (await raw.run(f"SELECT count(*) FROM {table}"))[0][0] for table in tables}


class Written:
    """Whoever else wants to write may do so between any two of these."""

    def __init__(self, outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most_members = 0
        self.transactions = 0
        self._write = outrider.store.write
        monkeypatch.setattr(outrider.store, "write", self.write)

    async def write(self, script: Transaction[Result]) -> Result:
        self.transactions += 1
        return await self._write(self._watched(script))

    def _watched(self, script: Transaction[Result]) -> Transaction[Result]:
        members = 0
        try:
            statement = next(script)
            while True:
                if statement.name in ("import_new_members", "import_members"):
                    members += len((statement.window or {})["recipient_id"])
                    self.most_members = max(self.most_members, members)
                statement = script.send((yield statement))
        except StopIteration as done:
            result: Result = done.value
            return result


async def test_a_large_audience_is_written_in_short_transactions_and_seen_whole(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X11: on SQLite an upload held the only writer; another tenant's POST took 110 s."""
    written = Written(outrider, monkeypatch)
    seen: list[int] = []
    campaign_id, size = await outrider.deployer.create(
        DEFAULT_SCOPE, definition(), people(MANY), ACTOR, seen.append
    )
    assert (size, seen) == (MANY, [IMPORT_WINDOW_ITEMS, 2 * IMPORT_WINDOW_ITEMS, MANY])
    assert written.most_members == IMPORT_WINDOW_ITEMS
    found = await outrider.store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
    assert found.audience_size == MANY
    assert await outrider.store.read(audience.size(campaign_id)) == MANY


async def test_beside_single_messages_transactions_are_shorter(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(outrider, monkeypatch)
    outrider.right_of_way.seen()
    _, size = await outrider.deployer.create(DEFAULT_SCOPE, definition(), people(MANY), ACTOR)
    assert size == MANY
    assert written.most_members == Limits().beside_lanes_recipients


async def test_a_campaign_is_invisible_until_its_last_recipient_is_written(
    outrider: Outrider,
) -> None:
    looks: list[asyncio.Task[list[str]]] = []
    await outrider.deployer.create(
        DEFAULT_SCOPE, definition(), people(MANY), ACTOR,
        lambda _: looks.append(asyncio.create_task(names(outrider))),
    )  # fmt: skip
    assert await looks[0] == []
    assert await names(outrider) == ["Large"]


async def test_a_mistake_in_a_late_window_leaves_nothing_behind(
    outrider: Outrider, database: str
) -> None:
    def with_mistake() -> Iterator[Recipient]:
        yield from people(MANY)
        raise InvalidInput("the last line is wrong")

    for phases in (("launch",), (AUDIENCE_IMPORT, "launch")):
        with pytest.raises(InvalidInput, match="the last line"):
            await outrider.deployer.create(
                DEFAULT_SCOPE, definition(*phases), with_mistake(), ACTOR
            )
    assert await names(outrider) == []
    assert set((await left_over(database)).values()) == {0}


async def test_an_id_that_comes_again_in_another_window_is_refused(
    outrider: Outrider, database: str
) -> None:
    def twice() -> Iterator[Recipient]:
        yield from people(MANY)
        yield recipient("lead-0", phone="+447799999999")

    with pytest.raises(InvalidInput, match="two recipients have the same id"):
        await outrider.deployer.create(DEFAULT_SCOPE, definition(), twice(), ACTOR)
    assert set((await left_over(database)).values()) == {0}


async def test_an_address_that_comes_again_in_another_window_is_a_duplicate(
    outrider: Outrider, database: str
) -> None:
    def again() -> Iterator[Recipient]:
        yield from people(MANY)
        yield recipient("other", phone=f"+4477{5:08d}")

    await outrider.deployer.create(DEFAULT_SCOPE, definition(), again(), ACTOR)
    async with raw_sql(database) as raw:
        rows = await raw.run("SELECT recipient_id FROM audience_members WHERE duplicate <> 0")
    assert rows == [("other",)]


@pytest.mark.parametrize("staged", [False, True])
async def test_a_large_file_is_added_to_what_is_there(
    outrider: Outrider, tmp_path: Path, database: str, staged: bool
) -> None:
    phases = (AUDIENCE_IMPORT, "launch") if staged else ("launch",)
    campaign_id, _ = await outrider.deployer.create(
        DEFAULT_SCOPE, definition(*phases), people(3), ACTOR
    )
    for first in (100_000, 200_000):
        path = file_of(tmp_path, MANY, first)
        added = await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, path, ACTOR)
        assert (added.recipients, added.staged) == (MANY, staged)
    if staged:
        chunks = await outrider.store.read(audience.uploads(campaign_id))
        assert sum(chunk.record_count for chunk in chunks) == 2 * MANY + 3
        ends = [chunk.first_position + chunk.record_count for chunk in chunks]
        assert [0, *ends[:-1]] == [chunk.first_position for chunk in chunks]
    else:
        found = await outrider.store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
        assert found.audience_size == 2 * MANY + 3
    assert (await left_over(database))["audience_intakes"] == 0


async def test_no_phase_starts_and_no_other_file_is_accepted_while_recipients_are_added(
    outrider: Outrider, tmp_path: Path
) -> None:
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition(), people(3), ACTOR)
    begin = outrider.audience_intake._scripts.begin(DEFAULT_SCOPE, campaign_id)
    async with outrider.audience_writer.taking_in(begin) as intake:
        with pytest.raises(Conflict, match="recipients are being added") as refused:
            await control(outrider, campaign_id, Action.START)
        assert refused.value.hint is not None
        for count in (1, MANY):
            with pytest.raises(Overloaded, match="other recipients are being added"):
                await outrider.audience_intake.add(
                    DEFAULT_SCOPE, campaign_id, file_of(tmp_path, count), ACTOR
                )
        await outrider.store.write(
            outrider.audience_intake._scripts.closed(
                DEFAULT_SCOPE, intake, None, AudienceAnswer(0, staged=False), ACTOR
            )
        )
    await control(outrider, campaign_id, Action.START)


async def test_an_upload_left_by_a_dead_process_is_removed(
    outrider: Outrider, database: str
) -> None:
    campaign_id = CampaignId(outrider.ids.new())
    writer = outrider.audience_writer
    begin = intakes.begin_of_new_campaign(campaign_id, outrider.ids.new(), outrider.clock.now())
    intake = await outrider.store.write(begin)
    # It wrote for a while, and was never heard of again.
    await outrider.store.write(
        audience.insert_window(campaign_id, 0, list(people(MANY)), is_new=True)
    )
    await outrider.store.write(audience.stage_window(campaign_id, 0, 0, list(people(MANY))))
    assert await writer.take_away_expired() == 1
    assert set((await left_over(database)).values()) == {0}
    # Should it wake up after all, it writes no more.
    with pytest.raises(Conflict, match="took too long"):
        await writer._write(
            intake, audience.insert_window(campaign_id, 0, list(people(1)), is_new=True)
        )
    assert set((await left_over(database)).values()) == {0}

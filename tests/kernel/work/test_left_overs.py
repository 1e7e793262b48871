"""What late and lost workers leave behind: an ending for every item, and nothing kept for ever."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Progress
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.files.call_journal import MappedCallJournal
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.delivery import item_drafter as drafter
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.transactions import ledger
from outrider.kernel.transactions.alerts import (
    LAST,
    Alert,
    AlertCode,
    alerts_page,
    raise_alert,
)
from outrider.kernel.transactions.ledger import JobContext, Member
from outrider.kernel.transactions.reserving import Draft
from outrider.testing.launches import launch, message, observe, people, target
from outrider.testing.store_suite.workshop import (
    CONTRACT,
    NOON,
    OTHER,
    REJECTED,
    Workshop,
)
from tests.kernel.delivery.test_crossings import accept_late
from tests.support.controls import control
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import (
    IMPATIENT,
    SteppedClock,
    opened,
    work_until,
    work_until_terminal,
)

GIVEN_BACK = Verdict(ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, given_back=True)


@pytest.fixture
async def outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    gateway = target(CONTRACT.submission_target, "noop", "noop:")
    async with opened(database, tmp_path, gateway) as outrider:
        yield outrider


async def refused_in(outrider: Outrider, shop: Workshop, *numbers: int) -> list[OutboxId]:
    """A worker takes the only job, and the provider refuses these people."""
    now = outrider.clock.now()
    job = await shop.claim_one(now=now)
    refused = await shop.open(job, *numbers, now=now)
    await shop.close(job, *((each, REJECTED) for each in refused), now=now)
    await shop.settle(job, now=now)
    return refused


async def retried(outrider: Outrider, run_id: RunId) -> RunId:
    run, _ = await observe(outrider, run_id)
    again = await control(outrider, run.campaign_id, Action.RETRY)
    assert again.run_id is not None
    return again.run_id


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_recipient_the_first_run_reached_late_is_not_sent_to_by_the_third(
    outrider: Outrider, database: str, when: str
) -> None:
    """The second run's item had failed already, and only the first one's was accepted late."""
    shop = Workshop(outrider.store)
    first = await shop.launch(2)
    refused, _ = await refused_in(outrider, shop, 0, 1)
    second = await retried(outrider, first)
    await refused_in(outrider, shop, 0, 1)
    if when == "before":
        await accept_late(database, refused)
    third = await retried(outrider, second)
    if when == "after":
        await accept_late(database, refused)
    accounting = await work_until_terminal(outrider, third)
    assert accounting == Accounting(intended=2, sent=1, skipped=1)
    assert (await shop.items(third))["lead-0"].reason == "accepted_late"


async def test_lost_leases_are_forgotten_when_nothing_of_their_jobs_is_in_doubt(
    database: str, tmp_path: Path
) -> None:
    clock = SteppedClock(NOON)
    gateway = target(CONTRACT.submission_target, "noop", "noop:")
    async with opened(database, tmp_path, gateway, clock=clock) as outrider:
        shop = Workshop(outrider.store)
        await shop.launch(4, batch_size=2)
        doubtful, done = [
            await shop.context(job) for job in await shop.claim(most=2, now=clock.now())
        ]
        await shop.open(doubtful, 0, 1, now=clock.now())
        await shop.open(done, 2, 3, now=clock.now())
        clock.advance(60)
        assert await shop.rescue(clock.now()) == 2
        again = await shop.claim(OTHER, most=2, now=clock.now())
        (second,) = [job for job in again if job.id == doubtful.job.id]
        script = ledger.doubt_abandoned(second, clock.now())
        assert await outrider.store.write(script) == 2
        sweeper = StopSweeper(replace(outrider.foundation, clock=clock))
        assert await sweeper.forget_once() == 0, "whoever judges now asks for them"
        clock.advance(outrider.limits.lost_leases_kept_seconds + 1)
        assert await sweeper.forget_once() == 1
        async with raw_sql(database) as raw:
            left = await raw.run("SELECT job_id FROM lost_leases")
        assert [str(row[0]) for row in left] == [doubtful.job.id]


async def test_an_alert_about_late_acceptances_ends_after_a_day(
    database: str, tmp_path: Path
) -> None:
    clock = SteppedClock(NOON)
    gateway = target(CONTRACT.submission_target, "noop", "noop:")
    async with opened(database, tmp_path, gateway, clock=clock) as outrider:
        alert = Alert(DEFAULT_SCOPE, AlertCode.LATE_ACCEPTANCE, "a run", "sent twice, perhaps")

        async def is_open() -> bool:
            await outrider.watcher.look_once()
            page = alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=True)
            return bool(await outrider.store.read(page))

        await outrider.store.write(raise_alert(alert, outrider.ids, clock.now()))
        clock.advance(timedelta(hours=23).total_seconds())
        assert await is_open()
        await outrider.store.write(raise_alert(alert, outrider.ids, clock.now()))
        clock.advance(timedelta(hours=23).total_seconds())
        assert await is_open(), "it has happened again since"
        clock.advance(timedelta(hours=2).total_seconds())
        assert not await is_open()


async def test_calls_that_were_broken_off_leave_the_journal_with_their_job(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed in it for as long as their worker lived, until there was no room for others."""
    draft = ItemDrafter.draft
    calls = 0

    async def breaks_in_the_second_window(
        self: ItemDrafter, context: JobContext, members: list[Member]
    ) -> list[Draft]:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            # Its first window is being called by now.
            await eventually(lambda: sandbox.requests > 0)
            raise RuntimeError("the same each time")
        return await draft(self, context, members[:1])

    monkeypatch.setattr(drafter.ItemDrafter, "draft", breaks_in_the_second_window)
    seen: list[int] = []
    gateway = target(CONTRACT.submission_target, "sms", "")
    limits = replace(IMPATIENT, job_max_attempts=1)
    async with Sandbox(Faults(latency_ms=2_000)) as sandbox:
        gateway["gatewayUrl"] = sandbox.http_url
        async with opened(database, tmp_path, gateway, limits=limits, targets={}) as outrider:
            close = MappedCallJournal.close

            def counted(journal: MappedCallJournal) -> None:
                seen.append(len(journal.begun() or ()))
                close(journal)

            monkeypatch.setattr(MappedCallJournal, "close", counted)
            run_id = await launch(
                outrider, [message(Channel.SMS, CONTRACT.submission_target)], people(100)
            )
            await work_until(outrider, run_id, lambda counted: counted.waiting == 0)
    assert seen == [0]

"""Shorthands for tests of controls: a campaign, a control, and its effects."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import TERMINAL_RUNS, Channel, PhaseState, RunStatus
from outrider.kernel.transactions import lost_jobs, phases
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer, RerunScope
from outrider.kernel.transactions.phases import CampaignEvent
from outrider.ports.store import Rows, Statement
from outrider.stores.postgres import store as postgres
from outrider.testing.launches import ACTOR, WATCH_SECONDS, message, observe, people
from tests.support.eventually import eventually

PATIENCE_SECONDS = 120
CHANNEL_OF = {"sms": Channel.SMS, "smtp": Channel.EMAIL}


async def created(
    outrider: Outrider,
    count: int = 60,
    *,
    order: tuple[str, ...] = (LAUNCH,),
    target: str = "sms.all",
    batch_size: int = 10,
) -> CampaignId:
    offer = message(CHANNEL_OF[target.split(".")[0]], target, body="An offer for you")
    definition = CampaignDefinition("test", order, (offer,), batch_size)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(count), ACTOR)
    return campaign_id


async def control(
    outrider: Outrider,
    campaign_id: CampaignId,
    action: Action,
    phase: str = LAUNCH,
    *,
    scope: RerunScope | None = None,
    confirm: bool = False,
) -> ControlAnswer:
    return await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, phase, Control(action, ACTOR, None, scope, confirm)
    )


async def begun(outrider: Outrider, campaign_id: CampaignId, phase: str = LAUNCH) -> RunId:
    """Start a phase; the id of its run."""
    answer = await control(outrider, campaign_id, Action.START, phase)
    assert answer.run_id is not None
    return answer.run_id


async def phase_state(
    outrider: Outrider, campaign_id: CampaignId, phase: str = LAUNCH
) -> PhaseState:
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    return next(each.state for each in snapshot.phases if each.phase == phase)


async def until(reached: Callable[[], bool]) -> None:
    """Wait for something that has no signal."""
    await eventually(reached, seconds=PATIENCE_SECONDS)


async def until_state(
    outrider: Outrider, campaign_id: CampaignId, state: PhaseState, phase: str = LAUNCH
) -> None:
    async def is_so() -> bool:
        return await phase_state(outrider, campaign_id, phase) is state

    await eventually(is_so, seconds=PATIENCE_SECONDS)


async def until_run(
    outrider: Outrider, run_id: RunId, reached: Callable[[RunStatus, Accounting], bool]
) -> Accounting:
    """Wait for a look at the run that is as wanted; the accounting adds up at every look."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            run, accounting = await observe(outrider, run_id)
            assert accounting.holds, accounting
            if reached(RunStatus(run.status), accounting):
                return accounting
            await asyncio.sleep(WATCH_SECONDS)


async def until_ended(outrider: Outrider, run_id: RunId) -> Accounting:
    return await until_run(outrider, run_id, lambda status, _: status in TERMINAL_RUNS)


async def until_nothing_is_held(outrider: Outrider) -> None:
    """Wait until no worker holds a job: all calls have been answered."""

    async def is_so() -> bool:
        return not await outrider.store.read(lost_jobs.lock_holders())

    await eventually(is_so, seconds=PATIENCE_SECONDS)


async def events_of(outrider: Outrider, campaign_id: CampaignId) -> list[CampaignEvent]:
    return await outrider.store.read(phases.events_after(campaign_id, 0, 10_000))


async def lifecycle(outrider: Outrider, campaign_id: CampaignId) -> list[str]:
    events = await events_of(outrider, campaign_id)
    return [event.type for event in events if event.type != "campaign_progress"]


@contextmanager
def before_statement(name: str, interlude: Callable[[], Any]) -> Iterator[None]:
    """On Postgres: once, just before that statement of whoever comes to it first, do something.

    What comes before it in the same transaction has been done and holds its locks.
    """
    ask = postgres._rows
    waiting = [interlude]

    async def rows(connection: postgres.Connection, statement: Statement) -> Rows:
        if statement.name == name and waiting:
            await waiting.pop()()
        return await ask(connection, statement)

    postgres._rows = rows
    try:
        yield
    finally:
        postgres._rows = ask
        assert not waiting, f"nobody asked for {name}"

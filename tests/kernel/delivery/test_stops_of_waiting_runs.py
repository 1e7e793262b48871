"""A stop ends a run within seconds, whatever its jobs are waiting for."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from outrider.bootstrap import Outrider
from outrider.documents.policy import parse_policy
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.phases import Action
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import policy_holds
from outrider.settings import TargetSettings
from outrider.testing.launches import launch, message, observe, people, target, until_terminal
from tests.support.controls import control
from tests.support.domain_mail import NAME, DomainServer, people_at, shaped
from tests.support.eventually import eventually
from tests.support.whole_runs import opened, working

SMS = message(Channel.SMS, "sms.all")
PEOPLE = 12
ENDS_WITHIN_SECONDS = 10.0

Waiting = Callable[[str, Path], AbstractAsyncContextManager[tuple[Outrider, RunId]]]
"""A run of which some can only be sent to hours later."""


@asynccontextmanager
async def for_a_warm_up(database: str, folder: Path) -> AsyncIterator[tuple[Outrider, RunId]]:
    warming = TargetSettings(warm_up=[2, 100], remembers_references="for_good")
    async with Sandbox() as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with opened(database, folder, sms, targets={"sms.all": warming}) as outrider:
            yield outrider, await launch(outrider, [SMS], people(PEOPLE), batch_size=3)


@asynccontextmanager
async def for_quiet_hours(database: str, folder: Path) -> AsyncIterator[tuple[Outrider, RunId]]:
    policy = {"quietHours": {"from": "00:00", "to": "23:59"}}
    async with (
        Sandbox() as sandbox,
        opened(database, folder, target("sms.all", "sms", sandbox.http_url)) as outrider,
    ):
        policies = parse_policy(json.dumps(policy).encode())
        await outrider.policy_keeper.put(DEFAULT_SCOPE, policies, "test")
        yield outrider, await launch(outrider, [SMS], people(PEOPLE), batch_size=3)


@asynccontextmanager
async def for_local_time(database: str, folder: Path) -> AsyncIterator[tuple[Outrider, RunId]]:
    """It is time in Tokyo, and half a day early in New York."""
    then = (datetime.now(ZoneInfo("Asia/Tokyo")) - timedelta(minutes=5)).replace(tzinfo=None)
    audience = [
        recipient("tokyo", phone="+819012345678", attributes="{}"),
        *(recipient(f"ny-{n}", phone=f"+1212555{n:04d}", attributes="{}") for n in range(PEOPLE)),
    ]
    async with (
        Sandbox() as sandbox,
        opened(database, folder, target("sms.all", "sms", sandbox.http_url)) as outrider,
    ):
        local = LocalLaunch(then.replace(second=0, microsecond=0), "America/New_York")
        greeting = message(Channel.SMS, "sms.all", body="Hi")
        yield outrider, await launch(outrider, [greeting], audience, local_launch=local)


@asynccontextmanager
async def for_a_domain(database: str, folder: Path) -> AsyncIterator[tuple[Outrider, RunId]]:
    slow = {"slow.test": {"rate_per_second": 0.001}}
    async with shaped(database, folder, DomainServer(), domains=slow) as outrider:
        mail = message(Channel.EMAIL, NAME)
        yield outrider, await launch(outrider, [mail], people_at("slow.test", PEOPLE), batch_size=3)


@pytest.mark.parametrize(
    "waiting",
    [for_a_warm_up, for_quiet_hours, for_local_time, for_a_domain],
    ids=lambda each: each.__name__,
)
async def test_a_stop_ends_a_run_that_waits(
    database: str, tmp_path: Path, waiting: Waiting
) -> None:
    """P1: nobody waits for tomorrow to have stopped today."""
    async with waiting(database, tmp_path) as (outrider, run_id), working(outrider):

        async def waits() -> bool:
            found = await outrider.store.read(policy_holds.of_runs([run_id]))
            return any(hold.waiting for hold in found.get(run_id, []))

        await eventually(waits, what="nobody waited")
        run, _ = await observe(outrider, run_id)
        await control(outrider, run.campaign_id, Action.STOP)
        accounting = await until_terminal(outrider, run_id, seconds=ENDS_WITHIN_SECONDS)
        assert (accounting.waiting, accounting.in_doubt) == (0, 0)
        assert accounting.skipped

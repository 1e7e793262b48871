"""Shorthands for tests of single messages: submitted, waited for, and the door of their target."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import RetrySchedule
from outrider.domain.targets import Door, DoorState
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent
from outrider.limits.kernel import Limits
from outrider.settings import Settings, TargetSettings
from outrider.testing.launches import (
    registry,
    remembering,
)

WAIT_SECONDS = 60
FAST = Limits(idle_poll_seconds=0.01, rescue_interval_seconds=0.1)
SOON = RetrySchedule(first_seconds=0.05)


@asynccontextmanager
async def opened(
    database: str,
    folder: Path,
    *entries: dict[str, object],
    targets: dict[str, TargetSettings] | None = None,
) -> AsyncIterator[Outrider]:
    file = folder / "registry.json"
    file.write_bytes(registry(*entries))
    # Behind most of these targets is a sandbox, which knows every reference again.
    taken_by_sandboxes = [str(e["submissionTarget"]) for e in entries if e["gatewayType"] == "sms"]
    settings = Settings(
        database_url=database,
        registry=file,
        targets=remembering(*taken_by_sandboxes, given=targets),
        spool=folder / "spool",
    )
    async with open_outrider(settings, limits=FAST) as outrider:
        await outrider.store.migrate()
        yield outrider


@asynccontextmanager
async def at_work(outrider: Outrider) -> AsyncIterator[None]:
    async with outrider.worker(retry=SOON) as worker, asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        yield
        worker.stop()


def sms(number: str = "+447700900123", text: str = "Hello") -> dict[str, Any]:
    return {"to": number, "message": text}


async def submit(
    outrider: Outrider, intent_id: str, target_name: str = "sms", **payload: Any
) -> Intent:
    intent, _ = await outrider.submissions.submit(
        DEFAULT_SCOPE, Submission(intent_id, target_name, payload or sms())
    )
    return intent


async def until(
    outrider: Outrider, intent_id: str, reached: Callable[[Intent], bool]
) -> tuple[Intent, list[Attempt]]:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
            if reached(intent):
                return intent, attempts
            await asyncio.sleep(0.01)


async def door_of(outrider: Outrider) -> Door | None:
    """The one that keeps this workspace out of the target, if there is one."""
    overview = await outrider.target_keeper.overview()
    return overview.door(outrider.registry_keeper.contracts()["sms"], DEFAULT_SCOPE.workspace_id)


async def until_door(outrider: Outrider, state: DoorState) -> Door:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            door = await door_of(outrider)
            if door is not None and door.state is state:
                return door
            await asyncio.sleep(0.01)


def ended(intent: Intent) -> bool:
    return intent.status != "PENDING"

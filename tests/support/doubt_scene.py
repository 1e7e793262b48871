"""Single messages whose calls are cut off, at a simulator that can be asked about them."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.submissions import Intent
from outrider.limits.kernel import Limits
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.provider_targets import TARGETS
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened

PATIENCE_SECONDS = 30
DELAY_SECONDS = 0.6
EAGER = replace(IMPATIENT, doubt_poll_seconds=0.05, doubt_first_seconds=0.05, doubt_cap_seconds=0.3)
ADDRESSES = {"smtp": "ada@example.test", "resend": "ada@example.test"}


def payload(family: str, number: int) -> dict[str, Any]:
    if family == "sms":
        return {"to": "+447700900123", "message": f"Hello {number}"}
    if family == "push":
        return {"token": f"token-{number}", "title": "Hello", "body": f"Hello {number}"}
    to = ADDRESSES.get(family, f"+44770090{number:04d}")
    return {"to": to, "subject": f"S {number}", "body": f"Hello {number}"}


@asynccontextmanager
async def scene(
    database: str, folder: Path, sandbox: Sandbox, family: str, *,
    options: Mapping[str, str] | None = None, delay_seconds: float = DELAY_SECONDS,
    settings: Mapping[str, Any] | None = None, limits: Limits = EAGER,
    others: Sequence[dict[str, Any]] = (), **terms: Any,
) -> AsyncIterator[Outrider]:  # fmt: skip
    """`settings` are the target's, as far as they differ from the family's usual ones."""
    os.environ.setdefault("PLANTED", "a-secret")
    known = TARGETS[family].model_dump(exclude={"remembers_references"})
    known |= {"look_up_delay_seconds": delay_seconds, "retry_first_seconds": 0.05}
    known["options"] = {**known["options"], **(options or {})}
    if family in ("smtp", "sms", "push"):
        known["look_up_url"] = sandbox.look_up_url
    known |= settings or {}
    url = sandbox.smtp_url if family == "smtp" else sandbox.http_url
    async with opened(
        database, folder, target("t", family, url, **terms), *others, limits=limits,
        targets={"t": TargetSettings(**known)},
    ) as outrider:  # fmt: skip
        yield outrider


async def submit(outrider: Outrider, family: str, count: int) -> None:
    for number in range(count):
        given = Submission(f"i-{number}", "t", payload(family, number))
        await outrider.submissions.submit(DEFAULT_SCOPE, given)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def doubted(outrider: Outrider, number: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, f"i-{number}")
            if intent.doubted_at is not None:
                return
            await asyncio.sleep(0.02)


async def ended(outrider: Outrider, count: int) -> list[Intent]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [
                (await outrider.submissions.intent(DEFAULT_SCOPE, f"i-{number}"))[0]
                for number in range(count)
            ]
            if all(each.item_status != "queued" for each in found):
                return found
            await asyncio.sleep(0.02)


async def checks(database: str) -> list[tuple[object, ...]]:
    """What each doubt waits for, and what was last found out about it."""
    async with raw_sql(database) as raw:
        return await raw.run("SELECT settles, detail FROM doubt_checks ORDER BY outbox_id")


async def left_to_people(database: str, count: int = 1) -> list[object]:
    """Wait until so many doubts are; returns why."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [why for settles, why in await checks(database) if settles == "person"]
            if len(found) == count:
                return found
            await asyncio.sleep(0.02)


async def waits_for(database: str, settles: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while settles not in [each for each, _ in await checks(database)]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def verdicts(outrider: Outrider) -> Counter[tuple[str, str]]:
    async with raw_sql(outrider.settings.database_url) as raw:
        rows = await raw.run("SELECT kind, verdict FROM doubt_verdicts")
    return Counter((str(kind), str(verdict)) for kind, verdict in rows)


async def repeated(outrider: Outrider, times: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await verdicts(outrider))["key", "ask_again"] < times:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

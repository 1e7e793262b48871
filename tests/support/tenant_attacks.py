"""What a bad neighbour does to a server, from a process of its own: NAME URL KEY and a size.

It says "begun" on stdout when it is at it, and goes on until its stdin ends.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from itertools import count, cycle
from typing import Any

import aiohttp

BOMB = "{% for i in range(99999) %}{{ ('x' * 99999)|upper|length }}{% endfor %}"
LONG = "{% if a %}" + "{{ a + 1 }}" * 3_600 + "{% endif %}"
TOO_LONG = "{% if a %}" + "{{ a + 1 }}" * 20_000 + "{% endif %}"
LINE_BYTES = 100
PREVIEWS, READERS, CHECKS, STREAMS = 20, 30, 12, 300


class Neighbour:
    """One key's requests, without patience for what they are answered."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session = session
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, Any]:
        headers = {**self._headers, **given.pop("headers", {})}
        async with self._session.request(
            method, f"{self._url}/api/v2{path}", headers=headers, **given
        ) as answer:
            try:
                return answer.status, await answer.json(content_type=None)
            except ValueError:
                return answer.status, None

    async def campaign(
        self, people: int = 2, bodies: tuple[str, ...] = ("Hi",), note: str = ""
    ) -> str:
        messages = [
            {"id": f"m{n}", "channel": "sms", "submissionTarget": "noop", "body": body}
            for n, body in enumerate(bodies)
        ]
        attributes = {"note": note}
        recipients = [
            {"id": f"r{n}", "phone": f"+4477{n:08d}", "attributes": attributes}
            for n in range(people)
        ]
        document = {
            "name": "Heavy",
            "phases": ["launch"],
            "batchSize": 50,
            "audience": {"recipients": recipients},
            "messages": messages,
        }
        status, made = await self.ask("POST", "/campaigns", json=document)
        assert status == 201, made
        return str(made["campaignId"])

    async def watch(self, campaign_id: str, refused: Callable[[], None]) -> None:
        async with self._session.get(
            f"{self._url}/api/v2/campaigns/{campaign_id}/events", headers=self._headers
        ) as answer:
            if answer.status != HTTPStatus.OK:
                refused()
            async for _ in answer.content:
                pass


async def template_bomb(hog: Neighbour, begun: Callable[[], None]) -> None:
    """A campaign of bombs under way, and previews of others all the time."""
    launched = await hog.campaign(2_000, (BOMB,))
    previewed = await hog.campaign(1, tuple(f"{BOMB}{number}" for number in range(50)))
    await hog.ask("POST", f"/campaigns/{launched}/phases/launch/start")
    begun()
    turn = count()

    async def preview() -> None:
        chosen = {"messageId": f"m{next(turn) % 50}"}
        await hog.ask("POST", f"/campaigns/{previewed}/preview", json=chosen)

    await _at_once(PREVIEWS, preview)


async def long_templates(hog: Neighbour, begun: Callable[[], None]) -> None:
    """Campaigns of fifty templates, as long as they may be together and longer, all the time."""
    begun()
    turn = cycle((LONG, LONG, TOO_LONG))
    await _at_once(CHECKS, lambda: hog.campaign(2, (next(turn),) * 50))


async def heavy_reads(hog: Neighbour, begun: Callable[[], None]) -> None:
    """The largest pages, and forecasts of a large audience."""
    campaign_id = await hog.campaign(20_000)
    for number in range(20):
        await hog.campaign(1, (f"Hi {number}",))
    begun()
    paths = ["/campaigns?limit=1000", "/audit?limit=1000", "/workflows", "/outbox?limit=1000"]
    dry_run = f"/campaigns/{campaign_id}/phases/launch/dry-run"

    async def read() -> None:
        await hog.ask("POST", dry_run)
        for path in paths:
            await hog.ask("GET", path)

    await _at_once(READERS, read)


async def stream_hog(hog: Neighbour, begun: Callable[[], None]) -> None:
    """As many streams as it can get, again and again; it has begun when it gets no more."""
    campaign_id = await hog.campaign()
    await _at_once(STREAMS, lambda: hog.watch(campaign_id, begun), pause_seconds=1.0)


async def bad_file(hog: Neighbour, begun: Callable[[], None], megabytes: int) -> None:
    """A large file with one bad line near its top, again and again."""
    await _files(hog, begun, megabytes, bad=True)


async def good_file(hog: Neighbour, begun: Callable[[], None], megabytes: int) -> None:
    await _files(hog, begun, megabytes, bad=False)


async def _files(hog: Neighbour, begun: Callable[[], None], megabytes: int, *, bad: bool) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b"id,phone,note\n" + (b"bad line without columns\n" if bad else b"")
        begun()
        note = b"n" * (LINE_BYTES - 30)
        window = 10_000
        for first in range(0, megabytes * 1_000_000 // LINE_BYTES, window):
            yield b"".join(
                b"r%09d,+44%010d,%s\n" % (number, number, note)
                for number in range(first, first + window)
            )

    while True:
        campaign_id = await hog.campaign()
        status, told = await hog.ask(
            "POST",
            f"/campaigns/{campaign_id}/audience",
            data=lines(),
            headers={"Content-Type": "text/csv"},
        )
        print(f"answered {status} {str(told)[:200]}", flush=True)


async def large_campaigns(hog: Neighbour, begun: Callable[[], None], megabytes: int) -> None:
    """Three campaigns of so many megabytes at once, again and again."""
    note = "n" * (LINE_BYTES - 78)
    people = megabytes * 1_000_000 // LINE_BYTES
    begun()
    await _at_once(3, lambda: hog.campaign(people, note=note))


async def _at_once(
    times: int, work: Callable[[], Awaitable[object]], pause_seconds: float = 0.0
) -> None:
    async def repeat() -> None:
        while True:
            try:
                await work()
            except (AssertionError, aiohttp.ClientError):
                await asyncio.sleep(0.05)
            await asyncio.sleep(pause_seconds)

    await asyncio.gather(*(repeat() for _ in range(times)))


async def main(name: str, url: str, key: str, *arguments: str) -> None:
    # The machine's time is for the server, and for whoever measures it.
    os.nice(10)
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)

    has_begun = False

    def begun() -> None:
        nonlocal has_begun
        if not has_begun:
            print("begun", flush=True)
        has_begun = True

    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        hog = Neighbour(session, url, key)
        attack = asyncio.ensure_future(globals()[name](hog, begun, *map(int, arguments)))
        await asyncio.wait([attack, ended], return_when=asyncio.FIRST_COMPLETED)
        if attack.done():
            attack.result()
        attack.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

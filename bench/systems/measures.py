"""The measures, the same for every system: what is timed, and from when until when.

A system enqueues, says how many messages have reached a recorded end, and brings its workers.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Protocol

from systems.child import STARTS_VARIABLE, Request, Results, begin, report
from systems.crew import Crew

LOOK_SECONDS = 0.02
STALLED_SECONDS = 120.0
SETTLE_SECONDS = 2.0
WARM_UP_SAMPLES = 5
WARM_UP_SHARE = 10
REST_SECONDS = (0.02, 0.08)
"""A random pause between two single messages, so that they do not align with a polling loop."""
LATENCY_SECONDS = 60.0
"""However few samples there are by then: a system that polls once a second has had enough."""


class System(Protocol):
    version: str

    async def prepare(self) -> None:
        """Creates the tables in an empty database and opens connections."""

    async def fill_terminal(self, rows: int) -> None:
        """Add messages that reached their end long ago."""

    async def enqueue(self, count: int) -> None:
        """As many at once as the system can take."""

    async def done(self) -> int:
        """How many enqueued messages have reached their end; polled often, so it is cheap."""

    async def recorded(self) -> int:
        """The same, counted from the rows or entries that record the end of each."""

    async def enqueue_one(self, number: int) -> None:
        """A single message, as a request would send it."""

    def crew(self) -> Crew: ...

    async def close(self) -> None: ...


async def measure(system: System, request: Request) -> None:
    """Do what the request asks for, and report it."""
    if request.measure == "latency":
        _listen(request)
    await system.prepare()
    results = Results(system.version)
    crew = system.crew()
    await crew.start()
    try:
        match request.measure:
            case "phases":
                await _phases(system, crew, request, results)
            case "end_to_end" | "terminal":
                await system.fill_terminal(request.terminal)
                await _end_to_end(system, crew, request, results)
            case "waiting":
                await _waiting(system, crew, request, results)
            case "latency":
                await _latency(system, crew, request, results)
            case "idle":
                await _idle(crew, request)
            case other:
                raise ValueError(f"nobody knows how to measure {other}")
        report(results)
    finally:
        await crew.stop()
        await system.close()


async def _phases(system: System, crew: Crew, request: Request, results: Results) -> None:
    """First everything is enqueued, then the workers begin."""
    begin()
    began = time.perf_counter()
    await system.enqueue(request.count)
    results.timings["enqueue"] = (request.count, time.perf_counter() - began)
    results.timings["drain"] = await _drain(system, crew, request.count)
    await _check(system, request.count)


async def _end_to_end(system: System, crew: Crew, request: Request, results: Results) -> None:
    """The workers are up and warm when the first message comes: a tenth as many came before."""
    await crew.go()
    before, warm_up = await system.recorded(), max(1, request.count // WARM_UP_SHARE)
    await system.enqueue(warm_up)
    await _until(system, warm_up)
    begin()
    began = time.perf_counter()
    await system.enqueue(request.count)
    await _until(system, warm_up + request.count)
    results.timings[request.measure] = (request.count, time.perf_counter() - began)
    await _check(system, before + warm_up + request.count)


async def _waiting(system: System, crew: Crew, request: Request, results: Results) -> None:
    """How fast the first of many are drained; the others are still waiting when it ends."""
    await system.enqueue(max(request.waiting, request.count))
    begin()
    results.timings["waiting"] = await _drain(system, crew, request.count)


async def _drain(system: System, crew: Crew, count: int) -> tuple[int, float]:
    """How many have ended, and in how long, once it was at least this many."""
    began = time.perf_counter()
    await crew.go()
    ended = await _until(system, count)
    return ended, time.perf_counter() - began


async def _latency(system: System, crew: Crew, request: Request, results: Results) -> None:
    """From before a single message is enqueued until its handler has begun."""
    starts = Path(os.environ[STARTS_VARIABLE]).open("rb")  # noqa: SIM115, ASYNC230
    await crew.go()
    begin()
    until = time.monotonic() + LATENCY_SECONDS
    number = 0
    while number < request.samples + WARM_UP_SAMPLES and time.monotonic() < until:
        await asyncio.sleep(random.uniform(*REST_SECONDS))
        enqueued = time.monotonic_ns()
        await system.enqueue_one(number)
        started = int(await asyncio.to_thread(starts.readline))
        if number >= WARM_UP_SAMPLES:
            results.latencies_ms.append((started - enqueued) / 1e6)
        number += 1
    starts.close()


async def _idle(crew: Crew, request: Request) -> None:
    """The parent looks at the processes before and after."""
    await crew.go()
    await asyncio.sleep(SETTLE_SECONDS)
    begin()
    await asyncio.sleep(request.seconds)


async def _until(system: System, count: int) -> int:
    """How many have ended once it was at least this many."""
    last, changed = -1, time.monotonic()
    while (now := await system.done()) < count:
        if now != last:
            last, changed = now, time.monotonic()
        elif time.monotonic() - changed > STALLED_SECONDS:
            raise TimeoutError(f"{now} of {count} messages ended, and no more")
        await asyncio.sleep(LOOK_SECONDS)
    return now


async def _check(system: System, count: int) -> None:
    recorded = await system.recorded()
    if recorded != count:
        raise AssertionError(f"{recorded} messages are recorded as ended, not {count}")


def _listen(request: Request) -> None:
    """A named pipe on which handlers report their start; open before the first write."""
    path = Path(request.folder, "starts")
    os.mkfifo(path)
    os.environ[STARTS_VARIABLE] = str(path)
    os.open(path, os.O_RDWR)

"""Telling a window with several calls: runs side by side, each run's events one after another."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from outrider.ports.bus import HELD, BusEvent, Delivery, Verdict

Tell = Callable[[BusEvent], Awaitable[Delivery]]


async def tell_in_order(window: Sequence[BusEvent], tell: Tell, concurrency: int) -> list[Delivery]:
    """After a failure the rest of that run is held; after `gone`, whatever was not begun."""
    verdicts = [HELD] * len(window)
    runs: dict[str, list[int]] = {}
    for place, event in enumerate(window):
        runs.setdefault(event.run_id, []).append(place)
    waiting = iter(runs.values())
    gone = False

    async def work() -> None:
        nonlocal gone
        # Whoever is free takes the next run: one slow run holds up one of us.
        for places in waiting:
            for place in places:
                if gone:
                    return
                verdicts[place] = await tell(window[place])
                verdict = verdicts[place].verdict
                if verdict is Verdict.GONE:
                    gone = True
                if verdict is not Verdict.DELIVERED:
                    break

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(runs))):
            group.create_task(work())
    return verdicts

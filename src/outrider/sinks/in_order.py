"""Publishing a window with several calls: runs side by side, each run's events in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from outrider.ports.bus import HELD, BusDelivery, BusEvent, BusVerdict

Publish = Callable[[BusEvent], Awaitable[BusDelivery]]


async def publish_in_order(
    window: Sequence[BusEvent], publish: Publish, concurrency: int
) -> list[BusDelivery]:
    """After a failure the rest of that run is held; after `gone`, everything that was not
    started."""
    verdicts = [HELD] * len(window)
    runs: dict[str, list[int]] = {}
    for index, event in enumerate(window):
        runs.setdefault(event.run_id, []).append(index)
    waiting = iter(runs.values())
    gone = False

    async def work() -> None:
        nonlocal gone
        # A free worker takes the next run, so that one slow run holds up one of them.
        for indexes in waiting:
            for index in indexes:
                if gone:
                    return
                verdicts[index] = await publish(window[index])
                verdict = verdicts[index].verdict
                if verdict is BusVerdict.GONE:
                    gone = True
                if verdict is not BusVerdict.DELIVERED:
                    break

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(runs))):
            group.create_task(work())
    return verdicts

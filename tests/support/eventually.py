"""How tests wait: for what becomes true, or, where nothing is to happen, for a named while.

Only for what no signal tells of. Whoever waits in vain fails with the words it was given.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.01

Found = TypeVar("Found")


async def eventually(
    look: Callable[[], Found | Awaitable[Found]],
    *,
    seconds: float = PATIENCE_SECONDS,
    every_seconds: float = LOOK_SECONDS,
    what: str = "it never came to be",
) -> Found:
    """What the look finds, as soon as that is true."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                looked = look()
                found = await looked if inspect.isawaitable(looked) else looked
                if found:
                    return found
                await asyncio.sleep(every_seconds)
    except TimeoutError:
        raise AssertionError(f"{what}, within {seconds} s") from None


async def observed_for(seconds: float) -> None:
    """Let so much time pass in which something should not happen: a bounded observation, which
    can miss what comes later and never fails because a machine is slow."""
    await asyncio.sleep(seconds)

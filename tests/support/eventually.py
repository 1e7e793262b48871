"""How tests wait: until a condition is true, or, if nothing should happen, for a named time. Use it
only for what has no signal. A wait in vain fails with the given description.
"""

import asyncio
import inspect
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


async def eventually(
    look: Callable[[], object],
    *,
    seconds: float = PATIENCE_SECONDS,
    what: str = "it never came to be",
) -> None:
    """Returns as soon as what the look finds is true; the look may be a coroutine function."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = look()
                if await found if inspect.isawaitable(found) else found:
                    return
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{what}, within {seconds} s") from None


async def observed_for(seconds: float) -> None:
    """A bounded observation: the time during which something should not happen. It can miss what
    comes later, and never fails because a machine is slow."""
    await asyncio.sleep(seconds)

"""The background loops: one that fails is begun again after a while, and the others go on."""

import asyncio

from structlog.testing import capture_logs

from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.limits.kernel import Limits
from tests.support.eventually import eventually
from tests.support.whole_runs import SteppedClock


async def test_a_failed_loop_is_restarted_and_does_not_disturb_others() -> None:
    clock, limits = SteppedClock(), Limits()
    begun = 0
    healthy = asyncio.Event()

    async def broken() -> None:
        nonlocal begun
        begun += 1
        raise TypeError("a bug")

    async def good() -> None:
        healthy.set()
        await asyncio.Future()

    loops = BackgroundLoops({"broken": broken, "good": good}, clock, limits)
    with capture_logs() as logs:
        running = asyncio.create_task(loops.run())
        await healthy.wait()
        await eventually(lambda: begun == 1)
        await clock.step(limits.housekeeper_restart_seconds)
        await eventually(lambda: begun == 2)
        running.cancel()
        await asyncio.wait({running})
    assert [each["loop"] for each in logs if each["event"] == "loop_failed"] == ["broken"] * 2

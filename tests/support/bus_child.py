"""A relay in a separate process that is killed between delivering an event and recording it.

Arguments: the database's URL and the webhook's.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from outrider.bootstrap import make_store
from outrider.engines.process_identity import this_worker
from outrider.ports.bus import BusDelivery, BusEvent, Sink
from tests.support.bus_scene import Scene


class Fatal:
    """The real sink, and death behind it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        await self._sink.publish(window)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")

    async def close(self) -> None:
        await self._sink.close()


async def main(database: str, url: str) -> None:
    scene = Scene(make_store(database))
    sink = Fatal(scene.sink(url, secret="env:HOOK_SECRET"))
    await scene.relay(sink, owner=this_worker()).relay_all()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

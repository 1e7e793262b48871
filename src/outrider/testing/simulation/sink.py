"""An event bus in memory: each run's events arrive in order, none is left out, some come twice."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence

from outrider.ports.bus import DELIVERED, BusDelivery, BusEvent, BusVerdict, first_fails
from outrider.testing.simulation.process import Process

FAILURE_RATE = 0.1


class Received:
    """What the one receiver of a world has got, from whichever process."""

    def __init__(self, seed: int, find: Callable[[str], None]) -> None:
        self.random = random.Random(f"{seed} sink")
        self.fails = True
        self.last: dict[str, int] = defaultdict(int)
        """Of each run the highest number."""
        self._find = find

    def take(self, event: BusEvent) -> None:
        last = self.last[event.run_id]
        if event.run_seq > last + 1 and event.outbox_id is None:
            self._find(f"the bus got event {event.run_seq} of {event.run_id} after {last}")
        self.last[event.run_id] = max(last, event.run_seq)


class MemorySink:
    """One process's connection to it."""

    def __init__(self, received: Received, process: Process) -> None:
        self._received = received
        self._process = process

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        await self._process.take(0.001, 0.02)
        chance = self._received.random
        if self._received.fails and chance.random() < FAILURE_RATE:
            if chance.random() < 1 / 2:
                # It came, and the answer was lost: it comes again.
                self._received.take(window[0])
            return first_fails(
                [each.run_id for each in window], BusDelivery(BusVerdict.FAILED, "simulated")
            )
        for event in window:
            self._received.take(event)
        await self._process.take(0.001, 0.02)
        return [DELIVERED] * len(window)

    async def close(self) -> None:
        pass

"""The real clock and the real source of ids; tests bring their own."""

import asyncio
import os
import random
import time
from datetime import UTC, datetime

from outrider.domain.ids import RANDOM_BYTES_PER_UUID, uuid7_batch


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds:
    def new(self) -> str:
        return self.batch(1)[0]

    def batch(self, count: int) -> list[str]:
        noise = os.urandom(RANDOM_BYTES_PER_UUID * count)
        return list(uuid7_batch(time.time_ns() // 1_000_000, noise))

    def jitter(self) -> float:
        return random.random()

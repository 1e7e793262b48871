"""The real clock and the real source of ids; tests bring their own."""

import asyncio
import gc
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from outrider.domain.ids import RANDOM_BYTES_PER_UUID, TICKS_PER_MS, uuid7_batch
from outrider.limits.api import (
    GC_NEW_OBJECTS,
    GC_OLD_ROUNDS,
    GC_YOUNG_ROUNDS,
    HANDLES_WANTED,
    THREAD_SWITCH_SECONDS,
)

_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def _monotonic() -> Callable[[], float]:
    return time.monotonic if _STEADY is None else partial(time.clock_gettime, _STEADY)


class SystemClock:
    monotonic = staticmethod(_monotonic())
    """Includes the time for which the machine slept, if the system counts it: a lease keeps
    running. It is the system's function itself, because every call reads it several times."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds:
    """Each id sorts after those made here before it, whatever the clock does."""

    def __init__(self) -> None:
        self._next_tick = 0

    def new(self) -> str:
        return self.batch(1)[0]

    def batch(self, count: int) -> list[str]:
        noise = os.urandom(RANDOM_BYTES_PER_UUID * count)
        first = max(time.time_ns() * TICKS_PER_MS // 1_000_000, self._next_tick)
        self._next_tick = first + count
        return list(uuid7_batch(first, noise))

    def jitter(self) -> float:
        return random.random()


def raise_handle_limit() -> int:
    """Raise the limit on file handles, up to what is wanted; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = HANDLES_WANTED if hard == resource.RLIM_INFINITY else min(hard, HANDLES_WANTED)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return HANDLES_WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most


def settle_process() -> None:
    """For a process that is all ours, once it has started: existing objects live for good, and are
    not scanned again after every window of messages. A thread that computes lets the event loop and
    the database's threads in sooner: a single message needs them several times."""
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_NEW_OBJECTS, GC_YOUNG_ROUNDS, GC_OLD_ROUNDS)

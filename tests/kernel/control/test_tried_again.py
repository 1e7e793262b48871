"""Writes that are tried again, and for how long whoever waits for them is kept."""

from typing import cast

import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.control.tried_again import tried_again
from outrider.limits.kernel import Limits
from outrider.limits.stores import SQLITE_BUSY_SECONDS
from outrider.ports.store import Store, Transaction, ask
from outrider.testing.clock import FakeClock

LIMITS = Limits()


def script() -> Transaction[str]:
    yield from ask("nothing")
    return "written"


class Away:
    """A store that fails so many times, and takes its time for it."""

    def __init__(self, clock: FakeClock, times: int, seconds: float) -> None:
        self._clock = clock
        self._left = times
        self._seconds = seconds
        self.asked = 0

    async def write(self, transaction: Transaction[str]) -> str:
        transaction.close()
        self.asked += 1
        if self._left:
            self._left -= 1
            self._clock.advance(self._seconds)
            raise StoreUnavailable("the database is locked")
        return "written"


async def test_a_connection_that_closes_at_once_is_retried() -> None:
    clock = FakeClock()
    store = Away(clock, LIMITS.control_attempts - 1, 0.1)
    assert await tried_again(cast("Store", store), script, clock, LIMITS) == "written"
    assert store.asked == LIMITS.control_attempts


async def test_callers_wait_only_once_for_a_frozen_writer() -> None:
    """RM: with each attempt as patient as SQLite is, a request had no answer for two minutes."""
    clock = FakeClock()
    store = Away(clock, 10, SQLITE_BUSY_SECONDS)
    began = clock.monotonic()
    with pytest.raises(StoreUnavailable):
        await tried_again(cast("Store", store), script, clock, LIMITS)
    assert store.asked == 1
    assert clock.monotonic() - began <= SQLITE_BUSY_SECONDS + LIMITS.control_patience_seconds

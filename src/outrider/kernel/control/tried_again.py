"""Retries a write that is safe to repeat when the store is unavailable."""

from collections.abc import Callable
from typing import TypeVar

from outrider.domain.errors import StoreUnavailable
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock
from outrider.ports.store import Store, Transaction

Written = TypeVar("Written")


async def tried_again(
    store: Store, script: Callable[[], Transaction[Written]], clock: Clock, limits: Limits
) -> Written:
    """Deadlocks and dropped connections pass quickly. A caller waiting for an answer must not be
    kept for several times the store's own timeout."""
    began = clock.monotonic()
    for attempt in range(1, limits.control_attempts + 1):
        try:
            return await store.write(script())
        except StoreUnavailable:
            waited = clock.monotonic() - began
            if attempt == limits.control_attempts or waited >= limits.control_patience_seconds:
                raise
            await clock.sleep(limits.control_backoff_seconds)
    raise AssertionError

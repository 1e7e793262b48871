"""The announcement listener: wakes a role when the database announces something for it.

A lost connection is retried; meanwhile, and with a database that announces nothing, the role's own
polling is sufficient.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from outrider.domain.errors import StoreError
from outrider.limits.kernel import Limits
from outrider.ports.store import Announced, Store

log = structlog.get_logger()


@asynccontextmanager
async def woken_by(
    store: Store, of: Announced, wake: Callable[[], None], limits: Limits
) -> AsyncIterator[None]:
    """`wake` is called on every announcement while the block runs."""
    listening = asyncio.create_task(
        _listen(store, of, wake, limits), name=f"listener for {of.value}"
    )
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.wait({listening})


async def _listen(store: Store, of: Announced, wake: Callable[[], None], limits: Limits) -> None:
    while True:
        try:
            async for _ in store.announcements(of):
                wake()
            return
        except StoreError as error:
            log.warning("announcements_lost", of=of.value, error=error.message)
        except Exception:
            # Its role keeps polling, whatever this error is.
            log.exception("announcements_lost", of=of.value)
        # Real time, not the role's clock, which a test may freeze: the connection exists or it does
        # not.
        await asyncio.sleep(limits.store_backoff_seconds)

"""An ear: wakes a role when the database announces something for it.

Where the line is lost it is tried again; meanwhile, and where a database announces nothing, the
role's own look now and then is enough.
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
    """`wake` is called with every announcement, for as long as the block runs."""
    listening = asyncio.create_task(_listen(store, of, wake, limits), name=f"ear for {of.value}")
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
            # Its role goes on looking by itself, whatever this is.
            log.exception("announcements_lost", of=of.value)
        # Not by the clock of the role, which a test may hold: the line is there or it is not.
        await asyncio.sleep(limits.store_backoff_seconds)

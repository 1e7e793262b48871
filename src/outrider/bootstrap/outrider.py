"""One process's view of Outrider: settings go in; a store, gateways and all roles come out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.bootstrap.contracts import make_gateways
from outrider.bootstrap.storage import make_store
from outrider.bootstrap.submissions import SubmissionRoles
from outrider.bootstrap.worker import WorkerRoles
from outrider.engines.process_identity import this_host
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.limits.kernel import Limits
from outrider.limits.rendering import PREVIEWS_WAITING_MAX, ROUTING_RENDER_SECONDS
from outrider.ports.clock import Clock
from outrider.rendering.pool import RenderPool
from outrider.settings import Settings
from outrider.system import SystemClock, SystemIds


class Outrider(WorkerRoles, SubmissionRoles):
    """One process's view of Outrider: a store, gateways, and the roles over them."""

    async def close(self) -> None:
        """Closes only what was actually created."""
        made = self.__dict__
        if "engine" in made:
            await self.engine.close()
        if "sinks" in made:
            for sink in self.sinks.values():
                await sink.close()
        if "callback_sink" in made:
            await self.callback_sink.close()
        if "history" in made:
            await self.history.close()


@asynccontextmanager
async def open_outrider(
    settings: Settings,
    *,
    limits: Limits | None = None,
    clock: Clock | None = None,
    machine_clock: Clock | None = None,
) -> AsyncIterator[Outrider]:
    """`clock` is the time of everything; by default it is the database's, kept current by
    `machine_clock`."""
    store = make_store(settings.database_url)
    limits = limits or settings.limits()
    ids = SystemIds()
    if clock is None:
        clock = DatabaseClock(machine_clock or SystemClock(), store, ids, limits, this_host())
    gateways = make_gateways(settings)
    preview_renderer = RenderPool(waiting=PREVIEWS_WAITING_MAX)
    # One workspace's slow templates must not hold up the events of the others for long.
    routing_renderer = RenderPool(window_seconds=ROUTING_RENDER_SECONDS)
    outrider = Outrider(
        settings, limits, store, gateways, clock, ids, preview_renderer, routing_renderer
    )
    store.give_way(lambda: outrider.right_of_way.is_taken)
    try:
        yield outrider
    finally:
        await outrider.close()
        await preview_renderer.close()
        await routing_renderer.close()
        await gateways.close()
        await store.close()

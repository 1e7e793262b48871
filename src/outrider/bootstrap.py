"""The composition root: the only place that knows concrete classes.

Settings go in; a wired `Outrider` comes out, from which entry points take the roles they need.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from outrider.documents.registry import Registry, parse_registry
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import WorkerId
from outrider.domain.retry import DIRECT, RetrySchedule
from outrider.engines.local import LocalWorker
from outrider.engines.process_identity import is_dead, this_worker
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.kernel.campaign_deployer import CampaignDeployer
from outrider.kernel.certifier import Certifier
from outrider.kernel.delivery import Delivery
from outrider.kernel.doubt_resolver import DoubtResolver
from outrider.kernel.drafter import Drafter
from outrider.kernel.job_dispatcher import JobDispatcher
from outrider.kernel.lease_rescuer import LeaseRescuer
from outrider.kernel.reservations import Reserver
from outrider.kernel.result_closer import ResultCloser
from outrider.ports.clock import Clock, IdSource
from outrider.ports.stages import StageObserver, Unobserved
from outrider.ports.store import Store
from outrider.rendering.renderer import ProcessRenderer
from outrider.secret_store import LocalSecrets
from outrider.settings import Limits, Settings
from outrider.stores.postgres.store import PostgresStore
from outrider.stores.sqlite.store import SqliteStore
from outrider.system import SystemClock, SystemIds


def make_store(url: str) -> Store:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`."""
    scheme = urlsplit(url).scheme
    match scheme:
        case "sqlite":
            path = url.removeprefix("sqlite:///")
            if path == url or not path:
                raise InvalidInput(
                    f"'{url}' names no file",
                    hint="write sqlite:///outrider.db, or sqlite:////var/lib/outrider.db",
                )
            return SqliteStore(Path(path))
        case "postgresql" | "postgres":
            return PostgresStore(url)
        case _:
            raise InvalidInput(
                f"a database URL cannot begin with '{scheme or url}'",
                hint="use sqlite:///FILE or postgresql://USER@HOST/DATABASE",
            )


def load_registry(path: Path) -> Registry:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the registry {path} cannot be read: {error.strerror}",
            hint="set OUTRIDER_REGISTRY to a registry file; examples/registry.json is one",
        ) from error
    return parse_registry(raw, GATEWAY_TYPES)


@dataclass
class Outrider:
    """One process's view of Outrider: a store, gateways, and the roles over them."""

    settings: Settings
    limits: Limits
    store: Store
    gateways: Gateways
    clock: Clock
    ids: IdSource

    @cached_property
    def registry(self) -> Registry:
        return load_registry(self.settings.registry)

    @cached_property
    def deployer(self) -> CampaignDeployer:
        return CampaignDeployer(
            self.store, self.clock, self.ids, self.limits, self.registry.contracts, GATEWAY_TYPES
        )

    @cached_property
    def certifier(self) -> Certifier:
        return Certifier(self.store, self.clock, self.limits, GATEWAY_TYPES)

    @cached_property
    def doubt_resolver(self) -> DoubtResolver:
        return DoubtResolver(self.store, self.gateways, self.clock, self.ids, self.limits)

    @asynccontextmanager
    async def worker(
        self,
        *,
        worker_id: WorkerId | None = None,
        retry: RetrySchedule = DIRECT,
        observer: StageObserver | None = None,
    ) -> AsyncIterator[LocalWorker]:
        """A worker wired to this process's store; the caller runs it."""
        name = worker_id or this_worker()
        watch = observer or Unobserved()
        renderer = ProcessRenderer()
        closer = ResultCloser(self.store, self.clock, self.limits, watch)
        delivery = Delivery(
            self.store,
            self.gateways,
            Drafter(renderer, self.ids, watch),
            closer,
            Reserver(self.store, self.clock, self.limits.lease_seconds),
            self.clock,
            self.ids,
            name,
            retry,
            watch,
        )
        dispatcher = JobDispatcher(
            self.store, delivery, self.clock, self.ids, name, self.limits, watch
        )
        rescuer = LeaseRescuer(self.store, self.clock, self.ids, name, self.limits, is_dead)
        try:
            await renderer.start()
            yield LocalWorker(dispatcher, closer, rescuer, self.clock, self.limits)
        finally:
            await renderer.close()


@asynccontextmanager
async def open_outrider(
    settings: Settings, *, limits: Limits | None = None, clock: Clock | None = None
) -> AsyncIterator[Outrider]:
    store = make_store(settings.database_url)
    gateways = Gateways(LocalSecrets(), mail_from=settings.mail_from, targets=settings.targets)
    try:
        yield Outrider(
            settings,
            limits or settings.limits(),
            store,
            gateways,
            clock or SystemClock(),
            SystemIds(),
        )
    finally:
        await gateways.close()
        await store.close()

"""The engine that the settings name, and what notifies it of decisions."""

from functools import cached_property
from typing import Protocol

from outrider.bootstrap.base import Wiring
from outrider.domain.errors import InvalidInput
from outrider.engines.parts import EngineParts, ReportStuck
from outrider.engines.process_identity import this_host, this_worker
from outrider.engines.table import ENGINES
from outrider.files.event_spool import LocalSpool
from outrider.kernel.foundation import Foundation
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.kernel.work.watcher import Watcher
from outrider.plugins import load_named
from outrider.ports.engine import Engine
from outrider.secrets.store import load_secrets
from outrider.settings import Settings


class EngineMaker(Protocol):
    def __call__(self, parts: EngineParts) -> Engine: ...


def engine_maker(name: str) -> EngineMaker:
    """Raises InvalidInput if what the engine needs is not installed."""
    try:
        # Temporal's takes 0.3 s with its library, and only if it is used.
        maker: EngineMaker = load_named(ENGINES[name])
    except ImportError as error:
        raise InvalidInput(
            f"the engine '{name}' is not installed: {error}",
            hint=f"pip install 'outrider[{name}]'",
        ) from error
    return maker


def make_engine(
    settings: Settings, foundation: Foundation, report_stuck: ReportStuck | None = None
) -> Engine:
    make = engine_maker(settings.engine)
    return make(EngineParts(settings, foundation, load_secrets(), this_worker(), report_stuck))


class EngineRoles(Wiring):
    @cached_property
    def engine(self) -> Engine:
        return make_engine(self.settings, self.foundation, self.watcher.tell_stuck_workflow)

    @cached_property
    def engine_notifier(self) -> EngineNotifier:
        return EngineNotifier(self.foundation, self.engine)

    @cached_property
    def watcher(self) -> Watcher:
        spool = self.settings.spool
        spools = {f"{this_host()}:{spool}": LocalSpool(spool, self.ids)}
        return Watcher(self.foundation, spools)

    async def reach_engine(self) -> None:
        """Raises EngineUnavailable if it has a server that does not answer."""
        await self.engine.check()

    def wake_lanes(self) -> None:
        """Single messages are due: a local worker need not wait for its next poll."""
        self.engine.wake()
        self.engine_notifier.wake()

"""The engine that the settings name, and what notifies it of decisions."""

from functools import cached_property
from typing import Protocol

from outrider.bootstrap.reports import ReportRoles
from outrider.domain.errors import InvalidInput
from outrider.engines.parts import EngineParts, ReportStuck
from outrider.engines.process_identity import this_host, this_worker
from outrider.engines.table import ENGINES
from outrider.files.event_spool import LocalSpool
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.reports.event_explainer import EventExplainer
from outrider.kernel.reports.item_explainer import ItemExplainer
from outrider.kernel.reports.run_explainer import RunExplainer
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.kernel.work.watcher import Watcher
from outrider.plugins import load_named
from outrider.ports.engine import Engine
from outrider.ports.http import HttpRequester
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
    parts = EngineParts(
        settings, foundation, load_secrets(), this_worker(), make_http, report_stuck
    )
    return make(parts)


def make_http(*, timeout_seconds: float, answer_max_bytes: int) -> HttpRequester:
    # Only an engine that speaks HTTP loads the client.
    from outrider.gateways.http_client import HttpClient

    return HttpClient(timeout_seconds=timeout_seconds, answer_max_bytes=answer_max_bytes)


class EngineRoles(ReportRoles):
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
        rates = {name: target.rate_limits for name, target in self.settings.targets.items()}
        return Watcher(
            self.foundation, spools, self.blocker_finder, rate_limits=rates,
            engine_away_since=lambda: self.engine_notifier.away_since(),
        )  # fmt: skip

    @cached_property
    def blocker_finder(self) -> BlockerFinder:
        return BlockerFinder(
            self.foundation,
            lambda: self.registry_keeper.contracts(),
            lambda: self.engine_notifier.deaf_since,
        )

    @cached_property
    def event_explainer(self) -> EventExplainer:
        return EventExplainer(self.foundation, self.blocker_finder)

    @cached_property
    def item_explainer(self) -> ItemExplainer:
        return ItemExplainer(self.store, self.blocker_finder)

    @cached_property
    def run_explainer(self) -> RunExplainer:
        return RunExplainer(self.foundation, self.blocker_finder)

    async def reach_engine(self) -> None:
        """Raises EngineUnavailable if it has a server that does not answer."""
        await self.engine.check()

    async def register_with_engine(self) -> list[str]:
        """Registers the engine's definitions with its server; returns their names."""
        return list(await self.engine.register())

    def wake_lanes(self) -> None:
        """Single messages are due: a local worker need not wait for its next poll."""
        self.engine.wake()
        self.engine_notifier.wake()

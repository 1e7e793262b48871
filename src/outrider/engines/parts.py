"""The parts an engine can be built from; each engine takes what it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from outrider.domain.ids import WorkerId
from outrider.kernel.foundation import Foundation
from outrider.ports.engine import Stalled
from outrider.ports.http import HttpMaker
from outrider.ports.secrets import SecretStore
from outrider.settings import Settings

ReportStuck = Callable[[Stalled, int], Awaitable[None]]
"""Notified of work whose workflow repeatedly failed over one task, before it is restarted."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    settings: Settings
    foundation: Foundation
    secrets: SecretStore
    worker_id: WorkerId
    http: HttpMaker
    report_stuck: ReportStuck | None = None

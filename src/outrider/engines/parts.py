"""What an engine is made of; each takes what it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from outrider.domain.ids import WorkerId
from outrider.kernel.foundation import Foundation
from outrider.ports.engine import Stalled
from outrider.ports.secrets import SecretStore
from outrider.settings import Settings

ReportStuck = Callable[[Stalled, int], Awaitable[None]]
"""Told of work whose workflow failed so many times over one task, before it is begun anew."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    settings: Settings
    foundation: Foundation
    secrets: SecretStore
    worker_id: WorkerId
    report_stuck: ReportStuck | None = None

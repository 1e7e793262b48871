"""The limits that the kernel is handed: those of its rooms, a file each, and what they share."""

from dataclasses import dataclass

from outrider.limits.access import AccessLimits
from outrider.limits.bus import BusLimits
from outrider.limits.contracts import ContractsLimits
from outrider.limits.control import ControlLimits
from outrider.limits.delivery import DeliveryLimits
from outrider.limits.receipts import ReceiptsLimits
from outrider.limits.reports import ReportsLimits
from outrider.limits.runs import RunsLimits
from outrider.limits.streams import StreamsLimits
from outrider.limits.work import WorkLimits
from outrider.limits.workflows import WorkflowsLimits


@dataclass(frozen=True)
class Limits(
    AccessLimits,
    BusLimits,
    ContractsLimits,
    ControlLimits,
    DeliveryLimits,
    ReceiptsLimits,
    ReportsLimits,
    RunsLimits,
    StreamsLimits,
    WorkLimits,
    WorkflowsLimits,
):
    """Every loop, batch, queue, lease, payload and wait of the kernel."""

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    idle_poll_seconds: float = 1.0
    yield_after_seconds: float = 0.5
    job_max_attempts: int = 5
    store_backoff_seconds: float = 1.0
    page_items: int = 1_000
    campaigns_looked_through: int = 10_000

"""What Prometheus scrapes: this process's requests and streams, and figures from the database.

Labels are closed sets: no id ever becomes one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrider import __version__
from outrider.api.operating_metrics import CallMetrics, blocked_metric, target_metrics
from outrider.domain.blocker_facts import BlockerCode
from outrider.kernel.delivery.call_meter import CallMeter
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.bus import SinkRecord
from outrider.kernel.transactions.figures import TargetFigures

BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class CountedFigures:
    """What the database counts, read once per scrape."""

    bypasses: int = 0
    in_doubt: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict)
    projection_lag_seconds: float = 0.0
    projected_events: int = 0
    alerts: Mapping[str, int] = field(default_factory=dict)
    sinks: Sequence[SinkRecord] = ()
    targets: TargetFigures | None = None
    registry_targets: Sequence[str] = ()
    read_at: datetime | None = None
    blocked: Mapping[BlockerCode, int] = field(default_factory=dict)


class _Database(Collector):
    """Shows the figures that were read last; none if they could not be read."""

    def __init__(self) -> None:
        self.figures: CountedFigures | None = None

    def collect(self) -> Iterator[Metric]:
        if self.figures is None:
            return
        yield CounterMetricFamily(
            "outrider_transition_bypass",
            "Phase states changed without going through the state machine",
            self.figures.bypasses,
        )
        yield GaugeMetricFamily(
            "outrider_items_in_doubt",
            "Items whose call may or may not have arrived",
            self.figures.in_doubt,
        )
        yield GaugeMetricFamily(
            "outrider_projection_lag_seconds",
            "Age of the oldest run event not in a snapshot yet",
            self.figures.projection_lag_seconds,
        )
        yield CounterMetricFamily(
            "outrider_projected_events",
            "Run events projected by this process",
            self.figures.projected_events,
        )
        jobs = GaugeMetricFamily("outrider_jobs", "Unfinished jobs, by status", labels=["status"])
        for status, count in self.figures.jobs.items():
            jobs.add_metric([status], count)
        yield jobs
        yield blocked_metric(self.figures.blocked)
        yield from _bus(self.figures)
        if self.figures.targets is not None and self.figures.read_at is not None:
            yield from target_metrics(
                self.figures.targets, self.figures.registry_targets, self.figures.read_at
            )


def _bus(figures: CountedFigures) -> Iterator[Metric]:
    alerts = GaugeMetricFamily("outrider_alerts", "Open alerts, by code", labels=["code"])
    for code in AlertCode:
        alerts.add_metric([code.value], figures.alerts.get(code, 0))
    yield alerts
    published = CounterMetricFamily(
        "outrider_bus_published", "Run events delivered to a sink", labels=["sink"]
    )
    failed = CounterMetricFamily(
        "outrider_bus_failed", "Failed attempts to deliver to a sink", labels=["sink"]
    )
    waiting = GaugeMetricFamily(
        "outrider_bus_waiting", "Run events waiting for a sink", labels=["sink"]
    )
    lag = GaugeMetricFamily(
        "outrider_bus_lag_seconds", "Age of the oldest event waiting for a sink", labels=["sink"]
    )
    for sink in figures.sinks:
        lag.add_metric([sink.name], _age_seconds(sink.oldest_at, figures.read_at))
        published.add_metric([sink.name], sink.published)
        failed.add_metric([sink.name], sink.failed)
        waiting.add_metric([sink.name], sink.waiting)
    yield from (published, failed, waiting, lag)


def _age_seconds(since: datetime | None, now: datetime | None) -> float:
    return 0.0 if since is None or now is None else max(0.0, (now - since).total_seconds())


class Metrics:
    def __init__(self, meter: CallMeter) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(CallMetrics(meter))
        self._requests = Counter(
            "outrider_http_requests_total", "Requests answered", ["method", "route", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._durations = Histogram(
            "outrider_http_request_duration_seconds", "Request duration",
            ["method", "route"], buckets=BUCKETS, registry=self._registry,
        )  # fmt: skip
        self.streams = Gauge("outrider_sse_clients", "Open event streams", registry=self._registry)
        self.auth_failures = Counter(
            "outrider_auth_failures_total", "Requests with an invalid key",
            registry=self._registry,
        )  # fmt: skip
        self.receipts = Counter(
            "outrider_receipts_total", "Receipts taken from providers", ["target", "event"],
            registry=self._registry,
        )  # fmt: skip
        Info("outrider_build", "Version information", registry=self._registry).info(
            {"version": __version__}
        )
        self._database = _Database()
        self._registry.register(self._database)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else "OTHER"
        self._requests.labels(known, route, str(status)).inc()
        self._durations.labels(known, route).observe(seconds)

    def page(self, figures: CountedFigures | None) -> bytes:
        self._database.figures = figures
        return generate_latest(self._registry)


def serve_worker_metrics(meter: CallMeter, host: str, port: int) -> None:
    """For a worker, which serves nothing else: a thread answers until the process ends."""
    registry = CollectorRegistry()
    registry.register(CallMetrics(meter))
    Info("outrider_build", "Version information", registry=registry).info({"version": __version__})
    start_http_server(port, host, registry)

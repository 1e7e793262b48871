"""Whether messages are going out: calls of this process, and targets, workers and doubts as the
database has them. Labels are the registry's targets, channels and closed sets."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from outrider.domain.blocker_facts import BlockerCode
from outrider.domain.targets import DoorState
from outrider.kernel.delivery.call_meter import CALL_SECONDS, CallMeter
from outrider.kernel.transactions.figures import DOUBT_LABELS, TARGET_STATES, TargetFigures


class CallMetrics(Collector):
    def __init__(self, meter: CallMeter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        messages = CounterMetricFamily(
            "outrider_messages",
            "Calls for messages made by this process, by how they ended",
            labels=["channel", "target", "outcome"],
        )
        for key, count in list(self._meter.messages.items()):
            messages.add_metric(list(key), count)
        yield messages
        calls = HistogramMetricFamily(
            "outrider_call_seconds", "Duration of calls made by this process", labels=["target"]
        )
        for target, taken in list(self._meter.durations.items()):
            counted, buckets = 0, []
            for bound, count in zip((*CALL_SECONDS, "+Inf"), taken.buckets, strict=True):
                counted += count
                buckets.append((str(bound), counted))
            calls.add_metric([target], buckets, taken.seconds)
        yield calls


def blocked_metric(blocked: Mapping[BlockerCode, int]) -> Metric:
    """Every code is always there, so that a rule sees it return to zero."""
    runs = GaugeMetricFamily(
        "outrider_blocked_runs", "Unfinished runs that do not move, by why", labels=["code"]
    )
    for code in BlockerCode:
        runs.add_metric([code.value], blocked.get(code, 0))
    return runs


def target_metrics(
    figures: TargetFigures, targets: Collection[str], now: datetime
) -> Iterator[Metric]:
    """Of every target of the registry, and of those that something is known of."""
    state = GaugeMetricFamily(
        "outrider_target_state", "1 for the state that a target is in", labels=["target", "state"]
    )
    oldest = GaugeMetricFamily(
        "outrider_oldest_due_seconds",
        "How long the oldest work for a target has been due without a worker",
        labels=["target"],
    )
    for target in sorted({*targets, *figures.states, *figures.due_at}):
        present = figures.states.get(target, DoorState.OPEN.value)
        for each in TARGET_STATES:
            state.add_metric([target, each], float(each == present))
        due_at = figures.due_at.get(target)
        waited = max(0.0, (now - due_at).total_seconds()) if due_at is not None else 0.0
        oldest.add_metric([target], waited)
    yield from (state, oldest)
    yield GaugeMetricFamily(
        "outrider_workers", "Workers that take jobs and have reported lately", figures.workers
    )
    doubts = GaugeMetricFamily(
        "outrider_doubts", "Items in doubt, by what settles them next", labels=["settles"]
    )
    for label in DOUBT_LABELS:
        doubts.add_metric([label], figures.doubts.get(label, 0))
    yield doubts

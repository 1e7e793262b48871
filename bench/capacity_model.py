"""How many messages a layout carries, what binds first, and how a day goes. Pure arithmetic.

A message's costs come from measurements, a layout from the reader, arrivals by the minute. It is a
fluid model: rates and averages, no queues inside; some headroom is left for what they hide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

DAY_SECONDS = 86_400
DAY_MINUTES = 1_440
MINUTE_SECONDS = 60
PAGE_BYTES = 8_192
MEGABYTE = 1_000_000
GIGABYTE = 1_000_000_000
MICRO = 1e-6

PEAK_HOUR_SHARE = 0.12
HOUR_WEIGHTS = (1, 1, 1, 1, 1, 2, 4, 7, 11, 13, 14, 12, 10, 11, 12, 12, 11, 10, 8, 7, 6, 4, 3, 2)
"""How a working day is spread, besides its peak hour, which is the greatest of these."""
BURST_SHARE = 0.10
BURST_MINUTE = 11 * 60
"""One campaign with a tenth of the day's messages is launched at eleven, all due at once."""


@dataclass(frozen=True)
class Costs:
    """Per message. `log_bytes` and `rest_bytes` exclude the cost of the random key."""

    worker_microseconds: float
    render_microseconds: float
    database_microseconds: float
    log_bytes: float
    rest_bytes: float
    key_index_bytes: float
    page_image_bytes: float
    """A whole page of the key's index as the log has it: without its free space."""


@dataclass(frozen=True)
class Layout:
    """`key_days`: among how many days' rows a new key may land; None for all rows kept."""

    name: str
    workers: int
    worker_cores: float = 2
    databases: int = 1
    database_cores: float = 8
    database_memory_gigabytes: float = 64
    disk_megabytes_per_second: float = 500
    disk_reads_per_second: float = 10_000
    planned_share: float = 0.6
    calls_at_once: int = 256
    provider_seconds: float = 0.2
    days_kept: float = 90
    key_days: float | None = None
    checkpoint_seconds: float = 900
    engine_ratio: float = 1.0


@dataclass(frozen=True)
class Bound:
    """What one resource allows; `of` is its name in a table."""

    of: str
    per_second: float


@dataclass(frozen=True)
class Day:
    """The backlog of arrivals, minute by minute, at one capacity; `keeps_up` if every day is like
    this."""

    backlog: tuple[float, ...]
    delay_seconds: tuple[float, ...]
    keeps_up: bool

    @property
    def worst_backlog(self) -> float:
        return max(self.backlog)

    @property
    def worst_delay_seconds(self) -> float:
        return max(self.delay_seconds)


def pages_a_message(pages: float, messages: float) -> float:
    """The share of messages that are the first to change a page since a checkpoint, with this many
    random hits.

    Each such page goes into the log whole, and to the disk once: 1 if every message meets an
    untouched page, close to 0 if pages are few or messages many.
    """
    if pages <= 0 or messages <= 0:
        return 0.0
    return pages / messages * -math.expm1(-messages / pages)


def key_rows(layout: Layout, per_day: float) -> float:
    """Per database: among how many rows' keys a new one may land."""
    days = layout.days_kept if layout.key_days is None else min(layout.key_days, layout.days_kept)
    return days * per_day / layout.databases


def key_index_gigabytes(costs: Costs, layout: Layout, per_day: float) -> float:
    """What must fit into one database's memory, or every message waits for a disk read."""
    return key_rows(layout, per_day) * costs.key_index_bytes / GIGABYTE


def random_pages(costs: Costs, layout: Layout, per_day: float) -> float:
    """Pages of the key's index that a message causes the log and the disk to write whole."""
    pages = key_rows(layout, per_day) * costs.key_index_bytes / PAGE_BYTES
    between = per_day / layout.databases / DAY_SECONDS * layout.checkpoint_seconds
    return pages_a_message(pages, between)


def log_bytes(costs: Costs, layout: Layout, per_day: float) -> float:
    """Per message, at the day's average rate."""
    return costs.log_bytes + costs.page_image_bytes * random_pages(costs, layout, per_day)


def disk_bytes(costs: Costs, layout: Layout, per_day: float) -> float:
    """Per message: the log, and the pages that a checkpoint writes."""
    pages = PAGE_BYTES * random_pages(costs, layout, per_day)
    return log_bytes(costs, layout, per_day) + costs.rest_bytes + costs.key_index_bytes + pages


def reads_a_message(costs: Costs, layout: Layout, per_day: float) -> float:
    """How often a message's key lands on a page that is not in memory."""
    needed = key_index_gigabytes(costs, layout, per_day)
    kept = layout.database_memory_gigabytes * layout.planned_share
    return max(0.0, 1 - kept / needed) if needed else 0.0


def worker_rate(costs: Costs, layout: Layout) -> float:
    """Messages per second of one worker: one core for itself, another for its renderer, if any."""
    both = costs.worker_microseconds + costs.render_microseconds
    seconds = MICRO * max(
        both / layout.worker_cores, costs.worker_microseconds, costs.render_microseconds
    )
    return layout.planned_share * layout.engine_ratio / seconds


def bounds(costs: Costs, layout: Layout, per_day: float) -> list[Bound]:
    """Messages per second that each resource allows, the scarcest first."""
    share, databases = layout.planned_share, layout.databases
    disk = databases * layout.disk_megabytes_per_second * MEGABYTE * share
    processors = databases * layout.database_cores * share
    calls = layout.workers * layout.calls_at_once * share
    reads = reads_a_message(costs, layout, per_day)
    found = [
        Bound("workers' processors", layout.workers * worker_rate(costs, layout)),
        Bound("calls at once", calls / layout.provider_seconds),
        Bound("Postgres's processors", processors / (MICRO * costs.database_microseconds)),
        Bound("disk writes", disk / disk_bytes(costs, layout, per_day)),
        Bound(
            "disk reads",
            databases * layout.disk_reads_per_second * share / reads if reads else math.inf,
        ),
    ]
    return sorted(found, key=lambda bound: bound.per_second)


def even_day(per_day: float) -> list[float]:
    """Arrivals by the minute."""
    return [per_day / DAY_MINUTES] * DAY_MINUTES


def business_day(per_day: float) -> list[float]:
    """A working day: its busiest hour has 12 % of the spread messages; one campaign comes at
    once."""
    spread = per_day * (1 - BURST_SHARE)
    peak = HOUR_WEIGHTS.index(max(HOUR_WEIGHTS))
    others = sum(HOUR_WEIGHTS) - HOUR_WEIGHTS[peak]
    shares = [weight / others * (1 - PEAK_HOUR_SHARE) for weight in HOUR_WEIGHTS]
    shares[peak] = PEAK_HOUR_SHARE
    arrivals = [spread * shares[minute // 60] / 60 for minute in range(DAY_MINUTES)]
    arrivals[BURST_MINUTE] += per_day * BURST_SHARE
    return arrivals


def simulate(arrivals: Sequence[float], per_second: float) -> Day:
    """The backlog at the end of each minute, and how long the last arrival waits then."""
    backlog, waits = 0.0, []
    for arrived in arrivals:
        backlog = max(0.0, backlog + arrived - per_second * MINUTE_SECONDS)
        waits.append(backlog)
    keeps_up = sum(arrivals) <= per_second * MINUTE_SECONDS * len(arrivals)
    return Day(tuple(waits), tuple(waiting / per_second for waiting in waits), keeps_up)


def calls_needed(per_second: float, provider_seconds: float) -> float:
    """Little's law: the number of concurrent calls."""
    return per_second * provider_seconds


def workers_needed(costs: Costs, layout: Layout, per_second: float) -> int:
    """Enough that neither their processors nor their concurrent calls bind."""
    by_calls = calls_needed(per_second, layout.provider_seconds) / (
        layout.calls_at_once * layout.planned_share
    )
    return max(1, math.ceil(max(by_calls, per_second / worker_rate(costs, layout))))


def database_cores_needed(costs: Costs, layout: Layout, per_second: float) -> int:
    return max(
        1, math.ceil(per_second * costs.database_microseconds * MICRO / layout.planned_share)
    )


def peak_rate(per_day: float) -> float:
    """Messages per second in the busiest hour of a business day, without the campaign."""
    return per_day * (1 - BURST_SHARE) * PEAK_HOUR_SHARE / 3_600

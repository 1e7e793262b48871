"""From measurements to planning figures: a message's costs, and the layouts compared.

A message's figures are medians of the rounds. Figures that are not from bench/capacity.json are
named here, with their source.
"""

import statistics
from collections.abc import Callable
from typing import Any

from capacity_model import PAGE_BYTES, Costs, Layout, pages_a_message
from outrider.limits.gateways import HTTP_CONCURRENCY, HTTP_CONNECTIONS
from outrider.limits.kernel import Limits

PER_DAY = 100_000_000

TEMPORAL_RATIO = 0.64
"""Messages per second on Temporal relative to the local engine: docs/explanation/engines.md."""
TEMPORAL_EVENTS = 11
"""Events of Temporal's history for 1,000 messages in jobs of 500: docs/explanation/engines.md."""

CALLS_AT_ONCE = min(HTTP_CONNECTIONS, HTTP_CONCURRENCY * Limits.jobs_in_parallel)
CAMPAIGN_DAYS = 0.1
"""Keys that begin with their run land among the rows of active runs: a tenth of a day's."""


CHOICES = (
    *(Layout(f"{count} worker{'s' if count > 1 else ''}", count, calls_at_once=CALLS_AT_ONCE)
      for count in (1, 2, 4, 8, 16)),
    Layout("4 databases, 4 workers each", 16, databases=4, calls_at_once=CALLS_AT_ONCE),
    Layout("ledger by month, 16 workers (not built)", 16, key_days=CAMPAIGN_DAYS,
           calls_at_once=CALLS_AT_ONCE),
    Layout("Temporal, 16 workers", 16, engine_ratio=TEMPORAL_RATIO, calls_at_once=CALLS_AT_ONCE),
)  # fmt: skip
SMALLEST, LARGEST = CHOICES[0], CHOICES[4]
"""On one Postgres and the local engine."""
FOUR_DATABASES, BY_MONTH = CHOICES[5], CHOICES[6]


def median(document: dict[str, Any], part: str, pick: Callable[[dict[str, Any]], float]) -> float:
    return statistics.median(pick(found) for found in document["parts"][part])


def cost(document: dict[str, Any], part: str, phase: str, name: str) -> float:
    """The median of one per-message figure."""
    return median(document, part, lambda found: found[phase][name])


def both(document: dict[str, Any], part: str, name: str) -> float:
    """Storing and delivering combined."""
    return cost(document, part, "store", name) + cost(document, part, "deliver", name)


def at_rest(document: dict[str, Any], part: str) -> float:
    return median(document, part, lambda found: sum(found["bytesAtRest"].values()))


def largest(document: dict[str, Any]) -> str:
    """The part with the fullest ledger."""
    return "full" if "full" in document["parts"] else "campaign"


def key_bytes(document: dict[str, Any]) -> float:
    """Per row in the key's index, when it has many rows."""
    return median(
        document, largest(document), lambda found: found["keyIndexBytes"] / found["ledgerRows"]
    )


def predicted_pages(document: dict[str, Any], part: str) -> float:
    """Index pages that a message should have touched first, according to the model."""
    return median(
        document,
        part,
        lambda found: pages_a_message(found["keyIndexBytes"] / PAGE_BYTES, found["messages"]),
    )


def page_image(document: dict[str, Any]) -> float:
    """Bytes of one whole page in the log: the measured over the expected."""
    if "full" not in document["parts"]:
        return float(PAGE_BYTES)
    measured = both(document, "full", "indexWholePageBytes")
    return measured / predicted_pages(document, "full")


def costs_of(document: dict[str, Any]) -> Costs:
    """For a campaign's message over HTTP, with its audience; a full ledger costs Postgres more."""
    more = both(document, largest(document), "postgresCpuMicroseconds") - both(
        document, "campaign", "postgresCpuMicroseconds"
    )
    return Costs(
        worker_microseconds=both(document, "http", "ownCpuMicroseconds"),
        render_microseconds=both(document, "http", "renderCpuMicroseconds"),
        database_microseconds=both(document, "http", "postgresCpuMicroseconds") + max(0.0, more),
        log_bytes=both(document, "http", "logBytes") - both(document, "http", "wholePageBytes"),
        rest_bytes=at_rest(document, "http")
        - median(document, "http", lambda found: found["bytesAtRest"][found["keyIndex"]]),
        key_index_bytes=key_bytes(document),
        page_image_bytes=page_image(document),
    )

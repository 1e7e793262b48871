"""What docs/explanation/capacity.md says about a message: its cost, and how that was measured."""

from typing import Any

import capacity_model as model
from capacity_forms import about, section, short
from capacity_plan import (
    LARGEST,
    PER_DAY,
    at_rest,
    both,
    cost,
    key_bytes,
    largest,
    median,
    page_image,
    predicted_pages,
)
from outrider.limits.gateways import HTTP_CONCURRENCY, PROVIDER_CONCURRENCY


def costs(document: dict[str, Any]) -> str:
    rows = []
    for name, label in _PARTS:
        if name not in document["parts"]:
            continue
        stored = "store" in document["parts"][name][0]
        pick = both if stored else _delivered
        split = [cost(document, name, "store", "ownCpuMicroseconds") if stored else None,
                 cost(document, name, "deliver", "ownCpuMicroseconds")]  # fmt: skip
        rows.append([
            label.format(rows=short(document["filledRows"])),
            *("" if each is None else f"{each:,.0f}" for each in split),
            *(f"{pick(document, name, each):,.0f}" for each in _COLUMNS),
            *(f"{pick(document, name, each):,.3f}" for each in ("transactions", "statements")),
            f"{at_rest(document, name):,.0f}",
            f"{median(document, name, lambda found: found['peakMemoryMb']):,.0f}",
        ])  # fmt: skip
    heads = [
        "", "own CPU µs: audience", "delivery", "renderer µs", "Postgres µs", "log bytes",
        "whole pages in it", "transactions", "statements", "bytes at rest", "peak MB",
    ]  # fmt: skip
    text = (
        "Of one message. A campaign's figures are those of storing its audience and delivering it."
    )
    table = section("What a message costs (measured)", text, heads, rows)
    return f"{table}\n\n{_a_core(document)}\n\n{_at_rest(document)}"


def _a_core(document: dict[str, Any]) -> str:
    """Messages per second that one busy core would achieve at these costs."""
    worker = {
        name: 1e6 / both(document, name, "ownCpuMicroseconds") for name in ("campaign", "http")
    }
    part = largest(document)
    postgres = 1e6 / both(document, part, "postgresCpuMicroseconds")
    per_million = both(document, "campaign", "logBytes") / 1_000
    return f"""So one core of a worker makes {about(worker["campaign"])} messages a second
without a provider and {about(worker["http"])} over HTTP, one core of Postgres {about(postgres)}
with the fullest ledger, and a million messages are {per_million:.1f} GB of log on an empty one.
(Computed: a second over the microseconds above.)"""


_PARTS = (
    ("campaign", "campaign, no-op gateway"),
    ("http", "campaign, HTTP sandbox"),
    ("full", "campaign, {rows} rows in the ledger"),
    ("fullCompressed", "the same, `wal_compression = pglz`"),
    ("singles", "single messages, 32 callers at once"),
    ("single", "single messages, one after the other"),
)
_COLUMNS = ("renderCpuMicroseconds", "postgresCpuMicroseconds", "logBytes", "wholePageBytes")


def _delivered(document: dict[str, Any], part: str, name: str) -> float:
    return cost(document, part, "deliver", name)


def _at_rest(document: dict[str, Any]) -> str:
    sizes: dict[str, float] = document["parts"]["campaign"][-1]["bytesAtRest"]
    large = sorted(sizes.items(), key=lambda item: -item[1])
    listed = ", ".join(f"`{name}` {size:,.0f}" for name, size in large)
    return f"""Bytes at rest by table and index, of the campaign on an empty ledger: {listed}.
Half of each page of the ledger is kept free for the close of its rows; that half is in these
figures."""


def random_key(document: dict[str, Any], costs: model.Costs) -> str:
    if "full" not in document["parts"]:
        return "## What a random key costs\n\nNot measured: no ledger was filled."
    found = document["parts"]["full"][-1]
    pages = found["keyIndexBytes"] / model.PAGE_BYTES
    log_full, log_empty = both(document, "full", "logBytes"), both(document, "campaign", "logBytes")
    packed = both(document, "fullCompressed", "logBytes")
    slower = both(document, "fullCompressed", "postgresCpuMicroseconds") - both(
        document, "full", "postgresCpuMicroseconds"
    )
    per_million = model.log_bytes(costs, LARGEST, PER_DAY) / 1_000
    return f"""## What a random key costs (measured, and modelled from it)

After a checkpoint, the first change of a page puts all of that page into the log. A campaign's
key is a hash, so its index is hit at random: with {found["ledgerRows"]:,} rows it has
{pages:,.0f} pages, and {found["messages"]:,} messages after a checkpoint should be the first on
{predicted_pages(document, "full"):.2f} of a page each. The log took
{both(document, "full", "indexWholePageBytes"):,.0f} bytes of index pages a message:
{page_image(document):,.0f} bytes a page, which has 8,192 with the room that is free in it. A
message cost {log_full:,.0f} bytes of log there, and {log_empty:,.0f} on an empty ledger;
compressed pages made it {packed:,.0f}, for {slower:,.0f} µs more of Postgres's processor. Each
row takes {key_bytes(document):,.0f} bytes of that index.

Modelled: a large ledger has so many pages that every message meets one of its own. At 100
million a day, {LARGEST.days_kept:g} days kept and a checkpoint every 15 minutes, a million
messages are {per_million:,.1f} GB of log. Checkpoints further apart, or several databases, help
only while an index has fewer pages than messages come between two checkpoints. `wal_compression`
trades log for processor, which there is enough of. Keys that begin with their run would end most
of it (see above, not built)."""


def singles(document: dict[str, Any]) -> str:
    alone = cost(document, "single", "deliver", "statements")
    together = cost(document, "singles", "deliver", "statements")
    return f"""## Single messages (measured)

A message that is submitted alone costs its own transactions: {alone:,.1f} statements where they
come one after the other, {together:,.2f} where 32 callers submit at once and share commits. What
a worker does while it waits for the next is in these figures too. If most of your day is single
messages that come far apart, plan with their row of the table above and not with the campaign's."""


def method(document: dict[str, Any]) -> str:
    machine = document["machine"]
    rounds = len(document["parts"]["campaign"])
    how = "\n".join(f"- `{name}`: {text}" for name, text in document["how"].items())
    return f"""## How it was measured, and what the model does not know

{machine["processors"]} × {machine["model"]}, {machine["memoryGb"]} GB, {machine["system"]},
Postgres {document["postgres"]} with fsync on, worker, database and simulator on the same
machine; medians of {rounds} {"round" if rounds == 1 else "rounds"}, the full ledger once. A
worker in the launching process, warm; jobs of 500.

{how}

The model is fluid: averages and rates. It does not know of vacuum of old rows, replicas,
backups, network between worker and database, slow callers of the API, or bursts within a minute;
the 40 % that is not planned for is for them. Gateways that recognise references have
{HTTP_CONCURRENCY} calls at once for each job and write in windows of 500. Those that do not,
SMTP among them, have {PROVIDER_CONCURRENCY} and write in windows of that size, so they open and
close some thirty times as often for as many messages: plan for them apart. Your machine gives
other figures: `make capacity` rewrites this page."""

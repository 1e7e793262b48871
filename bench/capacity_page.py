"""Writes docs/explanation/capacity.md and its picture from bench/capacity.json alone.

Run `python bench/capacity_page.py`; a test checks that the page is up to date. Every heading says
whether what follows was measured or is modelled from it.
"""

import json
import subprocess
import tempfile
from dataclasses import replace
from typing import Any

import capacity_advice as advice
import capacity_measured as measured
import capacity_model as model
from capacity_forms import flowed, gigabytes, rounded, section, short, wait
from capacity_plan import (
    BY_MONTH,
    CHOICES,
    FOUR_DATABASES,
    LARGEST,
    PER_DAY,
    SMALLEST,
    costs_of,
)
from environments import BENCH, ROOT, CannotInstall, python

FOUND = BENCH / "capacity.json"
PAGE = ROOT / "docs" / "explanation" / "capacity.md"
PICTURE = ROOT / "docs" / "images" / "capacity.png"

A_DAY = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
LATENCIES_MS = (50, 200, 1_000)
GROWTH_DAYS = 365
SHOWN_WORKERS = 4
GROWTH_LABELS = ("one database", "4 databases", "ledger by month (not built)")
LEAST_MINUTES = 1.0
"""Shorter waits are not drawn."""


def page(document: dict[str, Any]) -> str:
    costs = costs_of(document)
    parts = [
        advice.opening(document, costs),
        _needs(costs),
        _layouts(costs),
        advice.breaking(costs),
        measured.costs(document),
        measured.random_key(document, costs),
        measured.singles(document),
        measured.method(document),
    ]
    return "\n\n".join(map(flowed, parts)) + "\n"


def _needs(costs: model.Costs) -> str:
    """The reader's own question, for several sizes of reader."""
    rows = []
    for per_day in A_DAY:
        rate = model.peak_rate(per_day)
        layout = SMALLEST
        by_latency = [replace(layout, provider_seconds=each / 1_000) for each in LATENCIES_MS]
        disk = rate * model.disk_bytes(costs, layout, per_day) / model.MEGABYTE
        rows.append([
            f"**{short(per_day)}**",
            f"{per_day / model.DAY_SECONDS:,.0f} / {rate:,.0f}",
            *(f"{model.workers_needed(costs, each, rate)} "
              f"({model.calls_needed(rate, each.provider_seconds):,.0f})" for each in by_latency),
            f"{model.database_cores_needed(costs, layout, rate)}",
            rounded(disk),
            gigabytes(per_day * model.log_bytes(costs, layout, per_day)),
            gigabytes(per_day * (costs.rest_bytes + costs.key_index_bytes)),
        ])  # fmt: skip
    heads = [
        "a day", "a second: average / peak hour",
        *(f"workers at {each:,} ms" for each in LATENCIES_MS),
        "Postgres cores", "disk MB/s", "log GB a day", "ledger GB a day",
    ]  # fmt: skip
    return section("How many workers, what disk? (modelled)", advice.NEEDS, heads, rows)


def _layouts(costs: model.Costs) -> str:
    rows = [_layout_row(costs, layout) for layout in CHOICES]
    heads = [
        "layout", "what binds first", "messages/s", "then", "longest wait, even day",
        "business day", "key index GB", "log GB a day",
    ]  # fmt: skip
    return section("100 million a day, by layout (modelled)", advice.LAYOUTS, heads, rows)


def _layout_row(costs: model.Costs, layout: model.Layout) -> list[str]:
    first, second, *_ = model.bounds(costs, layout, PER_DAY)
    # Two days, since each begins with the backlog of the previous one.
    even = model.simulate(model.even_day(PER_DAY) * 2, first.per_second)
    business = model.simulate(model.business_day(PER_DAY) * 2, first.per_second)
    return [
        f"**{layout.name}**", first.of, f"{first.per_second:,.0f}",
        f"{second.of}, {second.per_second:,.0f}", wait(even), wait(business),
        f"{model.key_index_gigabytes(costs, layout, PER_DAY):,.0f}",
        f"{PER_DAY * model.log_bytes(costs, layout, PER_DAY) / model.GIGABYTE:,.0f}",
    ]  # fmt: skip


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the picture shows: the wait through a day, and how the key's index grows."""
    costs = costs_of(document)
    hours = [minute / 60 for minute in range(model.DAY_MINUTES)]
    waits = []
    for layout in (*CHOICES[:SHOWN_WORKERS], FOUR_DATABASES):
        bound = model.bounds(costs, layout, PER_DAY)[0]
        day = model.simulate(model.business_day(PER_DAY), bound.per_second)
        minutes = [
            seconds / 60 if seconds / 60 > LEAST_MINUTES else None for seconds in day.delay_seconds
        ]
        waits.append(_line(f"{layout.name}: {bound.per_second:,.0f} a second", hours, minutes))
    days = list(range(1, GROWTH_DAYS + 1))
    grown = []
    for label, layout in zip(GROWTH_LABELS, (LARGEST, FOUR_DATABASES, BY_MONTH), strict=True):
        sizes = [
            model.key_index_gigabytes(costs, replace(layout, days_kept=each), PER_DAY)
            for each in days
        ]
        grown.append(_line(label, days, sizes))
    memory = LARGEST.database_memory_gigabytes * LARGEST.planned_share
    grown.append(_line("memory that is planned for it", days, [memory] * len(days), dashed=True))
    return [
        {
            "title": "100 million on a business day, a campaign of 10 million at eleven (modelled)",
            "xLabel": "hour of the day", "yLabel": "minutes that the last one waits",
            "xTicks": list(range(0, 25, 3)), "legend": "upper left", "legendAt": [0, 1],
            "lines": waits,
        },
        {
            "title": "100 million every day: index of the unique key, in each database (modelled)",
            "xLabel": "days that are kept", "yLabel": "GB",
            "legend": "lower right", "legendAt": [1, 0.05], "lines": grown,
        },
    ]  # fmt: skip


def _line(label: str, x: list[Any], y: list[Any], *, dashed: bool = False) -> dict[str, Any]:
    return {"label": label, "x": x, "y": y, "dashed": dashed}


def write_all() -> None:
    document = json.loads(FOUND.read_text())
    PAGE.write_text(page(document))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    try:
        interpreter = python("picture")
    except CannotInstall as error:
        print(f"no picture, because matplotlib cannot be installed: {error}")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as told:
        json.dump(panels(document), told)
        told.flush()
        script = str(BENCH / "capacity_picture.py")
        subprocess.run([str(interpreter), script, told.name, str(PICTURE)], check=True)
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    write_all()

"""Writes docs/explanation/benchmarks.md and its picture from bench/results.json alone.

Run `python bench/page.py`; a test checks that the page is up to date.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from catalogue import LIMITS, Group, System
from environments import BENCH, ROOT, CannotInstall, python
from summary import Range, Summary
from table import number, ratio

RESULTS = BENCH / "results.json"
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "benchmarks.png"


def page(document: dict[str, Any]) -> str:
    summary = Summary(document)
    parts = [_opening(summary), _throughput(summary), _latency(summary), _cost(summary)]
    parts += [
        _growth(summary, "waiting", "More rows waiting",
                "Messages a second while this many more are waiting."),
        _growth(summary, "terminal", "More rows that have ended",
                "Messages a second end to end, with this many rows of earlier messages."),
        _over_http(summary), _promises(summary), _failures(summary),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(summary: Summary) -> str:
    found = summary.document
    machine, servers = found["machine"], found["servers"]
    versions = ", ".join(f"{name} {number}" for name, number in servers.items())
    rounds = "one round" if found["rounds"] == 1 else f"{found['rounds']} rounds"
    again = "".join(
        f"\n- again: *{measure}*, all systems side by side, {when}"
        for measure, when in found.get("again", {}).items()
    )
    quick = " It was a quick run: one look at each, to be repeated." if found["quick"] else ""
    return f"""# Benchmarks

Outrider, its peers and the limit, measured side by side in one run of `make bench`. This page is
generated from `bench/results.json`; your machine gives other figures, so compare the ratios.{quick}

- when: {found["when"]}
- where: {machine["processors"]} × {machine["model"]}, {machine["memoryGb"]} GB,
  {machine["system"]}; its load average was {machine["loadBefore"]} beforehand
- what: {found["count"]:,} messages per measurement (a tenth of that for systems marked *), a
  handler that does nothing, {rounds} in which systems alternate; medians, with the lowest and the
  highest
- with: {versions}; fsync on{again}

*The limit* is hand-written SQL for the same rows and nothing else: reserve, close and bookkeeping
in windows of 500. Everything beyond that (screening, rendering, retries, pausing, rescue) is what a
system adds.

![messages a second and latency](../images/benchmarks.png)"""


def _throughput(summary: Summary) -> str:
    rows = []
    for system in summary.systems():
        whole = summary.range(system.name, "end_to_end")
        if whole is None:
            continue
        rows.append([
            _label(system), summary.version(system.name),
            number(summary.range(system.name, "enqueue")),
            number(summary.range(system.name, "drain")),
            f"**{whole.median:,.0f}**", f"{whole.lowest:,.0f}-{whole.highest:,.0f}",
            ratio(summary.to_outrider(system.name, "end_to_end")),
            ratio(summary.to_limit(system.name, "end_to_end")),
        ])  # fmt: skip
    heads = [
        "system",
        "version",
        "enqueue",
        "drain",
        "end to end",
        "range",
        "× Outrider",
        "× limit",
    ]
    return _section(
        "Messages a second",
        "*End to end*: workers are running and warm (after a tenth of N messages), N messages are "
        "enqueued, and it ends when all N have reached a recorded end. × Outrider is to one worker "
        "on Postgres, or on SQLite for what needs no server; × limit is to one process of "
        "hand-written SQL, on SQLite for what needs no server and else on Postgres, or to the HTTP "
        "client alone.",
        heads,
        rows,
    )


def _latency(summary: Summary) -> str:
    rows = [
        [
            _label(system), number(summary.range(system.name, "latency_p50_ms"), 1),
            number(summary.range(system.name, "latency_p99_ms"), 1),
            number(summary.range(system.name, "idle_percent"), 1),
            number(summary.range(system.name, "idle_server_percent"), 1),
        ]
        for system in summary.systems()
        if summary.range(system.name, "latency_p50_ms")
    ]  # fmt: skip
    return _section(
        "One message on an idle system",
        "From before a single message is enqueued until its handler begins, in milliseconds; and "
        "what waiting costs, in per cent of one processor.",
        ["system", "p50 ms", "p99 ms", "idle CPU %", "its servers' %"],
        rows,
    )


def _cost(summary: Summary) -> str:
    rows = []
    for system in summary.systems():
        messages = summary.messages(system.name, "end_to_end")
        own = summary.seen(system.name, "end_to_end", "cpuSeconds")
        servers = summary.seen(system.name, "end_to_end", "serverCpuSeconds")
        memory = summary.seen(system.name, "end_to_end", "peakMemoryMb")
        if own and servers and memory:
            rows.append([
                _label(system), _micro(own, messages), _micro(servers, messages), number(memory),
            ])  # fmt: skip
    return _section(
        "What a message costs",
        "Processor time end to end, in microseconds per message: the system's own processes, and "
        "the servers that it uses. Memory is the most that any of its processes had.",
        ["system", "own CPU µs", "servers' CPU µs", "peak MB"],
        rows,
    )


def _over_http(summary: Summary) -> str:
    """Why that ratio is what it is: everything is on one machine, including the provider."""
    ours, client, rows = (
        _all_micro(summary, name) for name in ("outrider-http", LIMITS["http"], LIMITS["postgres"])
    )
    reached = summary.to_limit("outrider-http", "end_to_end")
    if not (ours and client and rows and reached):
        return ""
    processors = summary.document["machine"]["processors"]
    return f"""## Over HTTP

On this machine Outrider, Postgres and the provider's simulator share {processors} processors.
For a message, Outrider's client and the simulator use {client:.0f} µs of them, and hand-written
SQL for its rows {rows:.0f} µs more. Those two alone, sharing the processors as well as the client
does, would make {client / (client + rows):.2f} of what the client makes without any rows. Outrider
uses {ours:.0f} µs in all and makes {reached:.2f}. A provider at the other end of a network uses
none of these processors."""


def _all_micro(summary: Summary, name: str) -> float | None:
    """Processor time of all processes, in microseconds per message."""
    own = summary.seen(name, "end_to_end", "cpuSeconds")
    servers = summary.seen(name, "end_to_end", "serverCpuSeconds")
    if not (own and servers):
        return None
    return (own.median + servers.median) * 1e6 / summary.messages(name, "end_to_end")


def _growth(summary: Summary, figure: str, title: str, words: str) -> str:
    counts = summary.counts(figure)
    rows = []
    for system in summary.systems():
        ranges = [summary.range(system.name, figure, count) for count in counts]
        if any(ranges):
            first, last = ranges[0], ranges[-1]
            kept = last.median / first.median if first and last else None
            rows.append([_label(system), *(number(each) for each in ranges), ratio(kept)])
    heads = ["system", *(f"{count:,}" for count in counts), "last / first"]
    return _section(title, words, heads, rows)


def _promises(summary: Summary) -> str:
    rows = [[_label(system), system.promise, system.tuning] for system in summary.systems()]
    return _section(
        "What each promises, and how it was set up",
        "Speed is compared fairly only beside what it buys.",
        ["system", "after a crash", "set-up"],
        rows,
    )


def _failures(summary: Summary) -> str:
    failed = [
        f"- {system.label}: {reason}"
        for system in summary.systems()
        if (reason := summary.failure(system.name))
    ]
    return "## Not measured\n\n" + "\n".join(failed) if failed else ""


def _section(title: str, words: str, heads: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]
    return f"## {title}\n\n{words}\n\n" + "\n".join(lines)


def _label(system: System) -> str:
    star = " \\*" if system.slow else ""
    return f"**{system.label}**{star}" if system.group is Group.OURS else system.label + star


def _micro(seconds: Range, messages: int) -> str:
    return f"{seconds.median / messages * 1e6:,.0f}" if messages else ""


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the picture shows, best first."""
    summary = Summary(document)
    return [
        _panel(summary, "end_to_end", "messages a second, end to end (logarithmic)", 0,
               best_is_high=True),
        _panel(summary, "latency_p50_ms", "milliseconds until a single message's handler begins "
               "(p50, logarithmic)", 1, best_is_high=False),
    ]  # fmt: skip


def _panel(
    summary: Summary, figure: str, title: str, places: int, *, best_is_high: bool
) -> dict[str, Any]:
    rows = [
        {
            "label": system.label, "group": system.group.value, "value": found.median,
            "lowest": found.lowest, "highest": found.highest,
        }
        for system in summary.systems()
        if (found := summary.range(system.name, figure))
    ]  # fmt: skip
    rows.sort(key=lambda row: float(str(row["value"])), reverse=best_is_high)
    return {"title": title, "places": places, "rows": rows}


def write_all(results: Path) -> None:
    document = json.loads(results.read_text())
    PAGE.write_text(page(document))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    PICTURE.parent.mkdir(exist_ok=True)
    try:
        interpreter = python("picture")
    except CannotInstall as error:
        print(f"no picture, because matplotlib cannot be installed: {error}")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as rows:
        json.dump(panels(document), rows)
        rows.flush()
        subprocess.run(
            [str(interpreter), str(BENCH / "picture.py"), rows.name, str(PICTURE)], check=True
        )
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    write_all(RESULTS)

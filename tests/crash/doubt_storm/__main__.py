"""The doubt storm as a command: some cases, so many kills each, added to the results file.

    python -m tests.crash.doubt_storm --case telnyx --case plivo --kills 50
    python -m tests.crash.doubt_storm --until 1000 --minutes 120

It may be stopped at any time: a storm counts when it has ended, and the next start goes on with the
case and store that have the fewest kills.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from outrider.testing.postgres import PrivatePostgres, create_database, drop_database, given_url
from tests.conftest import keep_files_in_memory
from tests.crash.doubt_storm.cases import CASES, STORES
from tests.crash.doubt_storm.figures import (
    PAGE,
    RESULTS,
    Line,
    add_result,
    kills_of,
    read_results,
    table,
    with_table,
)
from tests.crash.doubt_storm.storm import Scale, problems, store_of, storm
from tests.crash.settling_scene import Case

MESSAGES_PER_KILL = 3
MESSAGES_MIN = 40
WORKERS = 3


def next_round(
    cases: Sequence[Case], stores: Sequence[str], lines: Sequence[Line], until: int
) -> tuple[Case, str] | None:
    """The case with the fewest kills below that number, on the store where it has fewer."""
    missing = [case for case in cases if kills_of(lines, case.name) < until]
    if not missing:
        return None
    case = min(missing, key=lambda each: kills_of(lines, each.name))
    return case, min(stores, key=lambda store: kills_of(lines, case.name, store))


async def run_round(
    postgres_url: str | None, case: Case, store: str, kills: int, seed: int
) -> Line:
    with tempfile.TemporaryDirectory(prefix="outrider-storm-") as name:
        folder = Path(name)
        if store == "sqlite":
            return await _figures(f"sqlite:///{folder / 'outrider.db'}", folder, case, kills, seed)
        assert postgres_url is not None
        database = await create_database(postgres_url)
        try:
            return await _figures(database, folder, case, kills, seed)
        finally:
            await drop_database(postgres_url, database)


async def _figures(database: str, folder: Path, case: Case, kills: int, seed: int) -> Line:
    scale = Scale(kills, max(MESSAGES_MIN, MESSAGES_PER_KILL * kills), WORKERS)
    try:
        figures = await storm(database, folder, case, scale, seed)
    except AssertionError as error:
        return {
            "case": case.name,
            "store": store_of(database),
            "seed": seed,
            "failed": str(error)[:2_000],
        }
    found = problems(case, figures)
    return figures.as_document() | ({"problems": found} if found else {})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, help="all, if none is named")
    parser.add_argument("--store", action="append", choices=STORES, help="both, if none is named")
    parser.add_argument("--kills", type=int, default=50, help="in each storm")
    parser.add_argument("--until", type=int, help="so many kills of each case, in all storms")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin none after these")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="only write the page's table anew")
    given = parser.parse_args()
    is_well = given.page or _storms(given)
    if given.results == RESULTS:
        PAGE.write_text(with_table(PAGE.read_text(), table(read_results(RESULTS))))
    return 0 if is_well else 1


def _storms(given: argparse.Namespace) -> bool:
    keep_files_in_memory()
    cases = [case for case in CASES if not given.case or case.name in given.case]
    stores, is_well = given.store or STORES, True
    once, end = list(cases), monotonic() + 60 * given.minutes
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="outrider-postgres-") as folder:
        url, server = given_url(), None
        if url is None and "postgres" in stores:
            server = PrivatePostgres(Path(folder))
            url = server.url
        while monotonic() < end:
            lines = read_results(given.results)
            chosen = next_round(once or cases, stores, lines, given.until or sys.maxsize)
            if chosen is None or (given.until is None and not once):
                break
            case, store = chosen
            if given.until is None:
                once.remove(case)
            seed = random.randrange(10**9)
            line = asyncio.run(run_round(url, case, store, given.kills, seed))
            line |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit}
            add_result(given.results, line)
            is_well &= not (line.keys() & {"failed", "problems"})
            print(line, flush=True)
        if server is not None:
            server.close()
    return is_well


if __name__ == "__main__":
    os.environ.setdefault("OUTRIDER_LOG", "console")
    sys.exit(main())

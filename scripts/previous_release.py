"""Rewrites tests/previous: what the previous release stores and publishes, made by its own code.

Run it as `python -m scripts.previous_release` when there is a new previous release; its commit is
in tests/support/previous_release.py. A campaign is started and left in flight: its database as SQL,
its events as CloudEvents, its snapshots, and an entry of the spool.
"""

import asyncio
import io
import json
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import apsw.shell
from tests.support.deployed_beside import launched, scene, until_run
from tests.support.previous_release import ROOT, environment, extracted, serving

FOLDER = ROOT / "tests" / "previous"
RECIPIENTS = 20
SENT = 7
RATE_PER_SECOND = 20.0
SPOOLED = """
import sys
from datetime import UTC, datetime
import msgspec
from outrider.domain.run_events import RunEventType
from outrider.kernel.work.job_step_recorder import SpooledEvent, SpooledEvents
moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
event = SpooledEvent(RunEventType.STEP_STARTED, "spooled", 1, 1, {"items": 1}, moment)
print(msgspec.json.encode(SpooledEvents(sys.argv[1], sys.argv[2], [event])).decode())
"""


async def record() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = extracted(folder / "previous")
        file = folder / "outrider.db"
        async with scene(folder, f"sqlite:///{file}") as scenery:
            scenery.use_noop(folder, RATE_PER_SECOND)
            async with serving(source, scenery.settings, folder, folder / "log") as server:
                run_id = await launched(server, RECIPIENTS)
                await until_run(server, run_id, sent=SENT)
                await server.stop()
            heard = scenery.heard
        FOLDER.mkdir(exist_ok=True)
        _write("database.sql", dumped(file))
        _write("events.ndjson", "".join(json.dumps(each) + "\n" for each in heard))
        connection = apsw.Connection(str(file))
        documents = connection.execute("SELECT document FROM run_snapshots ORDER BY projected_at")
        _write("snapshots.ndjson", "".join(f"{document}\n" for (document,) in documents))
        ((version,),) = connection.execute("SELECT plan_version FROM campaign_runs")
        connection.close()
        _write("spooled.json", spooled(source, run_id, version))


def dumped(file: Path) -> str:
    written = io.StringIO()
    connection = apsw.Connection(str(file))
    # Sinks are specific to this machine and no longer used.
    connection.execute("DELETE FROM event_bus_outbox; DELETE FROM event_bus_sinks")
    apsw.shell.Shell(stdout=written, db=connection).process_command(".dump")  # type: ignore[no-untyped-call]
    connection.close()
    lines = written.getvalue().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("-- "))


def spooled(source: Path, run_id: str, plan_version: str) -> str:
    """By that release's own code."""
    ended = subprocess.run(
        [sys.executable, "-c", SPOOLED, run_id, plan_version],
        env=environment(source, {}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout


def _write(name: str, content: str) -> None:
    """Without the names of this machine and its processes."""
    content = re.sub(rf"{re.escape(socket.gethostname())}\.\d+/\d+/", "machine.1/1/", content)
    (FOLDER / name).write_text(content)
    print(f"{name}: {len(content):,} characters")


if __name__ == "__main__":
    asyncio.run(record())

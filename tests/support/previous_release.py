"""The release before this one, taken from the repository's own history and run as processes.

Its dependencies are those of this environment: it needs none that are not here.
"""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

COMMIT = "ae160b0"
ROOT = Path(__file__).parents[2]
CONSUMER = ROOT / "tests/support/bus_consumer.py"
START_SECONDS = 60.0
STOP_SECONDS = 60.0

Document = dict[str, Any]


class NotHere(Exception):
    """The commit is not in this clone."""


def extracted(folder: Path) -> Path:
    """The sources of that release, to be put on PYTHONPATH; NotHere says what would help."""
    command = ["git", "archive", "--format=tar", COMMIT, "src"]
    try:
        taken = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHere(
            f"THE PREVIOUS RELEASE WAS NOT RUN: {COMMIT} is not in this clone ({error});"
            " `git fetch --unshallow` in a clone of the repository brings it"
        ) from error
    with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def environment(source: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """Of a process of that release, or of this one."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    path = ROOT / "src" if source is None else source
    return {**own, "PYTHONPATH": str(path), "OUTRIDER_LOG": "json", **given}


async def command(source: Path | None, given: Mapping[str, str], *arguments: str) -> Any:
    """`outrider ARGUMENTS --json` of that release, or of this one, to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", *arguments, "--json",
        env=environment(source, given), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, (output, errors)
    return json.loads(output)


def consumed(source: Path | None, what: str, documents: list[Document]) -> list[Document]:
    """What a consumer of that release, or of this one, makes of these events or snapshots."""
    ended = subprocess.run(
        [sys.executable, str(CONSUMER), what],
        input="".join(json.dumps(each) + "\n" for each in documents),
        env=environment(source, {}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


class Server:
    """`outrider serve` of one release, until it is stopped."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, key: str) -> None:
        self.process = process
        self.url = url
        self.key = key

    async def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            await self.process.wait()


@asynccontextmanager
async def serving(
    source: Path | None, given: Mapping[str, str], folder: Path, log: Path
) -> AsyncIterator[Server]:
    """A server of that release, or of this one, with one worker."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "outrider", "serve", "--json", "--port", "0", "--workers", "1",
            env=environment(source, given), cwd=folder, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            first = await process.stdout.readline()
        assert b'"url"' in first, f"{first!r}: see {log}"
        said = json.loads(first)
        yield Server(process, said["url"], said["key"] or given.get("OUTRIDER_ROOT_KEY", ""))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

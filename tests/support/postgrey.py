"""Debian's postgrey as a throw-away policy server: it greets strangers with "come back later"."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.support.postfix import LOOK_SECONDS, START_SECONDS, free_port

POSTGREY = shutil.which("postgrey") or shutil.which("postgrey", path="/usr/sbin")

needs_postgrey = pytest.mark.skipif(
    POSTGREY is None or os.geteuid() != 0,
    reason="NOT TESTED: postgrey is not installed, or this is not root; run"
    " `apt-get install postgrey` (scripts/machine.sh does) and test again as root",
)


@asynccontextmanager
async def running_postgrey(delay_seconds: int) -> AsyncIterator[str]:
    """What Postfix is told to ask: `check_policy_service inet:127.0.0.1:PORT`."""
    assert POSTGREY is not None
    with tempfile.TemporaryDirectory(prefix="outrider-postgrey-") as name:
        folder, port = Path(name), free_port()
        empty = _prepared(folder)
        process = await asyncio.create_subprocess_exec(
            POSTGREY, f"--inet=127.0.0.1:{port}", f"--dbdir={folder}", f"--delay={delay_seconds}",
            "--auto-whitelist-clients=0", f"--whitelist-clients={empty}",
            f"--whitelist-recipients={empty}",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            await _until_it_listens(port, process)
            yield f"check_policy_service inet:127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _prepared(folder: Path) -> Path:
    """Its own user keeps its database here; beside it, a list of nobody."""
    folder.chmod(0o755)
    shutil.chown(folder, "postgrey", "postgrey")
    empty = folder / "nobody"
    empty.write_text("")
    return empty


async def _until_it_listens(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                assert process.stderr is not None
                raise RuntimeError((await process.stderr.read()).decode())
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(LOOK_SECONDS)

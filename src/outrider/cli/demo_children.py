"""The demo's processes, `outrider sandbox` and `outrider work`: each ends with its block."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.cli import texts
from outrider.domain.errors import OutriderError
from outrider.settings import Settings

START_SECONDS = 20.0
STOP_SECONDS = 30.0


@asynccontextmanager
async def child(
    *arguments: str, settings: Settings | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`outrider …` in a child process, ended with the block."""
    environment = {**os.environ, **(settings.as_environment() if settings else {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    async with ended_with_block(process):
        yield process


@asynccontextmanager
async def ended_with_block(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


@asynccontextmanager
async def worker(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    async with child("work", "--json", settings=settings) as process:
        await ready_line(process)
        yield process


async def ready_line(process: asyncio.subprocess.Process) -> bytes:
    """The line with which a child says that it is ready."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise OutriderError(
            texts.DemoChildren.NOT_STARTED,
            hint=texts.DemoChildren.NOT_STARTED_HINT,
        )
    return line

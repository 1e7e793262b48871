"""Processes of Outrider that are forked from one which has the imports behind it: most of a start.

Each has its own environment, folder and streams, as if it were run by `python -m`. How a start from
nothing goes is for those tests to see that are about it.
"""

import asyncio
import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

forkserver = multiprocessing.get_context("forkserver")
forkserver.set_forkserver_preload(
    [
        # First: it has what is installed remembered, for all that are forked.
        "tests",
        "outrider.cli.web_server",
        "outrider.cli.app",
        "outrider.cli.serve",
        "outrider.engines.conductor.engine",
        "outrider.engines.temporal.mover",
        "outrider.gateways.http_client",
        "outrider.gateways.sandbox",
        "outrider.phases.link_checker",
        "outrider.phases.registry",
        "outrider.sinks.directory",
        "outrider.stores.postgres.store",
        "outrider.testing.chaos_worker",
        "outrider.testing.clock",
    ]
)

LINE_BYTES_MAX = 1024 * 1024
POLL_SECONDS = 0.005


class ForkedProcess:
    """`python -m MODULE ARGUMENTS`, as asyncio's own processes look from outside."""

    def __init__(
        self,
        process: multiprocessing.context.ForkServerProcess,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self._process = process
        self.stdout = stdout
        self.stderr = stderr

    @classmethod
    async def start(
        cls, module: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Self:
        told, output = forkserver.Pipe(duplex=False)
        logged, errors = forkserver.Pipe(duplex=False)
        process = forkserver.Process(
            target=_become, args=(module, arguments, dict(environment), folder, output, errors),
            daemon=True,
        )  # fmt: skip
        process.start()
        output.close()
        errors.close()
        return cls(process, await _reader(told), await _reader(logged))

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.is_alive():
            # It may end between the two.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self) -> int:
        while True:
            if not self._process.is_alive():
                break
            await asyncio.sleep(POLL_SECONDS)
        assert self._process.exitcode is not None
        return self._process.exitcode

    async def communicate(self) -> tuple[bytes, bytes]:
        said = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return said[0], said[1]


async def _reader(connection: "Connection[None, None]") -> asyncio.StreamReader:
    reader = asyncio.StreamReader(LINE_BYTES_MAX)
    pipe = os.fdopen(os.dup(connection.fileno()), "rb", buffering=0)
    connection.close()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader


def _become(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    output: "Connection[None, None]",
    errors: "Connection[None, None]",
) -> None:
    """The whole life of the forked process."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    output.close()
    errors.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

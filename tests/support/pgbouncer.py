"""Debian's PgBouncer in front of a database, on a port of its own.

It passes few settings of a session on, so those that Outrider asks for are set on the database.
"""

import asyncio
import os
import pwd
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit, urlunsplit

from outrider.stores.postgres.store import PLANS_BY_KEY
from tests.support.raw_sql import raw_sql

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
START_SECONDS = 10.0
LOOK_SECONDS = 0.02
SETTINGS = {
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "'10s'",
    **PLANS_BY_KEY,
}
CONFIGURATION = """
[databases]
{name} = host={host} port={server_port} dbname={name} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 400
default_pool_size = 80
ignore_startup_parameters = {ignored}
logfile = {folder}/pgbouncer.log
"""


class PgBouncer:
    """`url` is the database's, through it."""

    def __init__(self, configuration: Path, owner: str, url: str, port: int) -> None:
        self._configuration = configuration
        self._owner = owner
        self._port = port
        self._process: asyncio.subprocess.Process | None = None
        self.url = url

    async def start(self) -> None:
        assert PGBOUNCER, "it is not installed: apt-get install pgbouncer"
        # It refuses to be root.
        who = ["-u", self._owner] if os.geteuid() == 0 else []
        self._process = await asyncio.create_subprocess_exec(
            PGBOUNCER, "-q", *who, str(self._configuration)
        )
        async with asyncio.timeout(START_SECONDS):
            while not await self._answers():
                assert self._process.returncode is None, "PgBouncer did not start"
                await asyncio.sleep(LOOK_SECONDS)

    async def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True


@asynccontextmanager
async def pgbouncer(database: str, mode: str = "session") -> AsyncIterator[PgBouncer]:
    name = urlsplit(database).path.removeprefix("/")
    async with raw_sql(database) as raw:
        for setting, value in SETTINGS.items():
            await raw.run(f'ALTER DATABASE "{name}" SET {setting} = {value}')
    # Not below pytest's folder, which is shut to all but its owner.
    with TemporaryDirectory(prefix="outrider-pgbouncer-", ignore_cleanup_errors=True) as folder:
        bouncer = await asyncio.to_thread(_configured, database, Path(folder), mode)
        await bouncer.start()
        try:
            yield bouncer
        finally:
            await bouncer.kill()


def _configured(database: str, folder: Path, mode: str) -> PgBouncer:
    parts = urlsplit(database)
    user = parts.username or "postgres"
    host = parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
    port = _free_port()
    file = folder / "pgbouncer.ini"
    file.write_text(
        CONFIGURATION.format(
            name=parts.path.removeprefix("/"), host=host, server_port=parts.port or 5432,
            port=port, folder=folder, user=user, mode=mode,
            ignored=",".join([*SETTINGS, "application_name", "extra_float_digits", "options"]),
        )
    )  # fmt: skip
    owner = pwd.getpwuid(Path(host).stat().st_uid).pw_name if host.startswith("/") else "nobody"
    if os.geteuid() == 0:
        shutil.chown(folder, owner)
        shutil.chown(file, owner)
    there = parts._replace(netloc=f"{user}@127.0.0.1:{port}", query="sslmode=disable")
    return PgBouncer(file, owner, urlunsplit(there), port)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

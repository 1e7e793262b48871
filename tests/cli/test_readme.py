"""README's walk-through with curl, run as it is printed, against a server like `make serve`'s."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import target
from tests.support.api_server import running_server

ROOT = Path(__file__).parents[2]
WALK_SECONDS = 300


def commands() -> list[str]:
    section = (ROOT / "README.md").read_text().partition("## Control it live")[2]
    blocks = re.findall(r"```console\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    return [line.removeprefix("$ ") for line in blocks[1].splitlines() if line.startswith("$ ")]


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("awk")),
    reason="README's walk-through needs curl and awk: apt-get install curl",
)
async def test_the_walk_through_works_as_it_is_printed(tmp_path: Path) -> None:
    # Slower than there, so that it is still under way when a busy machine comes to the pause.
    async with Sandbox(Faults(latency_ms=1_000)) as sandbox:
        targets = (target("sms.realtime", "sms", sandbox.http_url),)
        async with running_server(tmp_path, targets=targets) as server:
            lines = [line for line in commands() if not line.startswith("export OUTRIDER_KEY")]
            assert len(lines) >= 10
            script = "\n".join(["set -eu", *(f"{line}\necho" for line in lines)])
            script = script.replace("http://127.0.0.1:8400", server.url)
            script = script.replace("/tmp/people.csv", f"{tmp_path}/people.csv")
            # The stream is cut off by curl's own time limit, and says so.
            script = script.replace("curl -s -N -m 5", "! curl -s -N -m 5")
            shell = await asyncio.create_subprocess_exec(
                "bash", "-c", script, cwd=ROOT, env={**os.environ, "OUTRIDER_KEY": server.key},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            async with asyncio.timeout(WALK_SECONDS):
                out, err = await shell.communicate()
            said = out.decode()
            assert shell.returncode == 0, said + err.decode()
    assert '"recipients":20000,"staged":true' in said
    assert '"phase":"launch","state":"paused"' in said
    assert '"controlPhase":"launch"' in said
    assert "event: phase_resumed" in said
    assert '"error"' not in said

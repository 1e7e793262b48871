"""`examples/quotes` runs as it is, and sends what its page says."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "quotes"
RUN_SECONDS = 300


async def test_the_quotes_example_runs_end_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "quotes"
    shutil.copytree(EXAMPLE, folder)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = await asyncio.create_subprocess_exec(
        "bash", str(folder / "run.sh"), env={**os.environ, "PATH": tools},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(RUN_SECONDS):
        out, err = await shell.communicate()
    said = out.decode()
    assert shell.returncode == 0, said + err.decode()
    assert "4 received, 1 already known" in said
    received = [json.loads(line) for line in (folder / "received.ndjson").read_text().splitlines()]
    # The agent is also a custom recipient of the rejection, in another spelling: one mail.
    assert sorted(line["to"] for line in received) == [
        "+447700900123",
        "Sales@example.test",
        "ada@example.test",
        "ada@example.test",
        "bo@example.test",
    ]
    (pdf,) = [file for line in received for file in line.get("attachments", [])]
    assert pdf["contentType"] == "application/pdf"
    assert "so the legacy sender thank_you_email was used" in said
    assert "because its workflow step is not due yet" in said

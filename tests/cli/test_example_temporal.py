"""`examples/temporal` runs as it is: a worker killed, a launch paused, and nothing sent twice."""

import asyncio
import os
import re
import shutil
import signal
import sys
from pathlib import Path

from tests.support.broken_server import closed_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "temporal"
PORTS = ("TEMPORAL_PORT", "TEMPORAL_UI_PORT", "API_PORT", "SANDBOX_PORT")
RUN_SECONDS = 300


async def test_the_temporal_example_runs_end_to_end_and_cleans_up(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "example", tmp_path / "temporary"
    shutil.copytree(EXAMPLE, folder)
    temporary.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")},
        **{name: str(closed_port()) for name in PORTS},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(temporary),
    }
    shell = await asyncio.create_subprocess_exec(
        "bash", str(folder / "run.sh"), env=environment, start_new_session=True,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(RUN_SECONDS):
            out, err = await shell.communicate()
    finally:
        if shell.returncode is None:
            os.killpg(shell.pid, signal.SIGKILL)
    said = out.decode()
    assert shell.returncode == 0, said + err.decode()
    assert '"state":"paused"' in said
    assert re.search(r"Running +outrider/[0-9a-f-]+/run/[0-9a-f-]+ +OutriderWork", said)
    assert "0 waiting + 0 in doubt + 2,000 sent + 0 failed + 0 skipped" in said
    assert re.search(r"Launch certificate for run [0-9a-f-]+: holds", said)
    assert re.search(r"the providers delivered 2000 of \d+ requests", said)
    assert re.search(r"Status +COMPLETED", said)
    assert list(temporary.iterdir()) == []

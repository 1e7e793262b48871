"""The disk of the database is full for a while: readiness knows, and then all goes on (X4)."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.testing.launches import target
from tests.support.api_server import ApiServer, running_server
from tests.support.eventually import eventually
from tests.support.witness_gateway import WitnessGateway

DISK_MEGABYTES = 48
PATIENCE_SECONDS = 60.0
RECIPIENTS = 400


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that a test can fill."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("X4 IS NOT TESTED HERE: only root can mount a small disk to fill")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """With small pieces at the end, so that not even a page is left."""
    file = disk / "fills.bin"
    with file.open("wb", buffering=0) as filling:
        for size in (1024 * 1024, 4096, 1):
            piece = b"\0" * size
            while True:
                try:
                    if filling.write(piece) < size:
                        break
                except OSError:
                    break
    return file


def files_in(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


async def until_ready(server: ApiServer, status: int) -> None:
    async def is_so() -> bool:
        return (await server.request("GET", "/readyz")).status == status

    await eventually(is_so, seconds=PATIENCE_SECONDS)


async def test_uploads_on_a_full_temporary_disk_are_asked_to_retry_later(
    small_disk: Path, tmp_path: Path
) -> None:
    """XM: it was 500; once while it is received, once while what was read of it is written."""
    rows = "".join(f"p{number},+4477009{number:05d}\n" for number in range(90_000))
    audience = ("id,phone\n" + rows).encode()
    definition = {
        "name": "offer", "phases": ["audience_import", "launch"],
        "messages": [{"id": "a", "channel": "sms", "submissionTarget": "noop", "body": "Hi"}],
    }  # fmt: skip
    temporary = {"TMPDIR": str(small_disk)}
    async with running_server(tmp_path, environment=temporary, workers=0) as server:
        path = f"/campaigns/{(await server.post('/campaigns', definition))['campaignId']}/audience"
        for room_bytes in (len(audience) // 2, len(audience) + 4_096):
            filling = await asyncio.to_thread(fill, small_disk)
            os.truncate(filling, filling.stat().st_size - room_bytes)
            refused = await server.request(
                "POST", path, data=audience, headers={"Content-Type": "text/csv"}
            )
            assert refused.status == 503, refused.body
            assert refused.json["error"]["code"] == "UPLOAD_NOT_KEPT"
            assert "Retry-After" in refused.headers
            filling.unlink()
            assert await asyncio.to_thread(files_in, small_disk) == []
        taken = await server.request(
            "POST", path, data=audience, headers={"Content-Type": "text/csv"}
        )
        assert taken.status in (200, 201), taken.body


async def test_a_full_disk_is_reported_and_the_run_continues_once_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    async with WitnessGateway(tmp_path, "gateway") as gateway:
        await gateway.script(latency_seconds=0.02)
        sms = target("sms.all", "sms", gateway.url)
        database = f"sqlite:///{small_disk}/outrider.db"
        spool = {"OUTRIDER_SPOOL": str(small_disk / "spool")}
        async with running_server(
            tmp_path, database=database, targets=(sms,), environment=spool
        ) as server:
            await until_ready(server, 200)
            people = [
                {"id": f"p{number}", "phone": f"+4477009{number:05d}"}
                for number in range(RECIPIENTS)
            ]
            definition = {
                "name": "offer", "phases": ["launch"], "audience": {"recipients": people},
                "messages": [{"id": "a", "channel": "sms", "submissionTarget": "sms.all",
                              "body": "Hi"}],
                "batchSize": 40,
            }  # fmt: skip
            created = await server.post("/campaigns", definition)
            path = f"/campaigns/{created['campaignId']}/phases/launch/start"
            run_id = (await server.post(path))["runId"]
            await gateway.until_requests(60)

            filling = await asyncio.to_thread(fill, small_disk)
            await until_ready(server, 503)
            said = await server.request("GET", "/healthz")
            assert said.status == 200, "it lives, and is not ready"
            filling.unlink()
            await until_ready(server, 200)

            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    run = await server.get(f"/runs/{run_id}?reasons=false")
                    if run["status"] in ("completed", "partial", "failed"):
                        break
                    await asyncio.sleep(0.1)
            assert run["status"] == "completed", run
            assert run["accounting"]["sent"] == RECIPIENTS

"""Fixtures of the crash proof: a scene on either store, and nothing left running behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from outrider.bootstrap import open_outrider
from outrider.gateways.sandbox import Sandbox
from outrider.limits.kernel import Limits
from outrider.settings import Settings, TargetSettings
from outrider.testing import launches
from tests.crash.scene import Provider, Scene
from tests.crash.witness import Witness
from tests.crash.workers import SHORT_LEASE_SECONDS

JOB_ATTEMPTS = 100
"""Enough attempts that no job is given up, except in tests about that."""
ITEM_ATTEMPTS = 1_000

NOBODYS_ADDRESS = "127.0.0.1:1"


@asynccontextmanager
async def open_scene(
    database: str,
    folder: Path,
    *,
    job_attempts: int = JOB_ATTEMPTS,
    temporal_address: str | None = None,
    conductor_url: str | None = None,
    sms: TargetSettings | None = None,
) -> AsyncIterator[Scene]:
    """On the local engine, or on the server at that address."""
    registry, log_path = folder / "registry.json", folder / "provider.ndjson"
    async with Sandbox(log_path=log_path) as sandbox:
        urls = {Provider.SMS: ("sms", sandbox.http_url), Provider.MAIL: ("smtp", sandbox.smtp_url)}
        targets = [
            launches.target(provider.target, *where, maxAttempts=ITEM_ATTEMPTS)
            for provider, where in urls.items()
        ]
        registry.write_bytes(launches.registry(*targets))
        alone = f"crash-{uuid4()}"
        engine = "temporal" if temporal_address else "conductor" if conductor_url else "local"
        settings = Settings(
            database_url=database,
            registry=registry,
            engine=engine,
            temporal_address=temporal_address or NOBODYS_ADDRESS,
            temporal_task_queue=alone,
            conductor_url=conductor_url or f"http://{NOBODYS_ADDRESS}",
            conductor_domain=alone,
            targets=launches.remembering(
                Provider.SMS.target, given={Provider.SMS.target: sms or TargetSettings()}
            ),
        )
        # A server goes by the lease of whoever lets a run go.
        limits = Limits(job_max_attempts=job_attempts, lease_seconds=SHORT_LEASE_SECONDS)
        async with open_outrider(settings, limits=limits) as outrider:
            await outrider.store.migrate()
            scene = Scene(database, registry, folder, outrider, sandbox, Witness(log_path))
            try:
                yield scene
            finally:
                await scene.close()


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(database, tmp_path) as opened:
        yield opened

"""A replica that lags behind is promoted while a worker is at work: nobody hears twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import StoreUnavailable
from outrider.domain.restored_database import RestoredDatabase
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.transactions.recovery import Quarantine
from outrider.testing.launches import launch, message, people, until_terminal
from outrider.testing.postgres import PrivatePostgres, create_database
from tests.support.doubt_scene import scene, until
from tests.support.whole_runs import working

PEOPLE = 120
WAIT_SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[PrivatePostgres]:
    with TemporaryDirectory(prefix="outrider-postgres-", ignore_cleanup_errors=True) as folder:
        made = PrivatePostgres(Path(folder) / "data")
        yield made
        made.close()


async def quarantine(outrider: Outrider) -> Quarantine | None:
    try:
        return await outrider.database_releaser.quarantine()
    except StoreUnavailable:
        # Just lost, or not promoted yet.
        return None


@pytest.mark.parametrize(
    "count", [PEOPLE, pytest.param(3_000, id="3000-storm", marks=pytest.mark.storm)]
)
async def test_a_promoted_replica_sends_nothing_until_released_and_nothing_twice(
    server: PrivatePostgres, tmp_path: Path, count: int
) -> None:
    """A9: it had lost what was sent after it fell behind, and 112 of 3,000 people heard twice."""
    database = await create_database(server.url)
    settings = {"remembers_references": "never"}
    async with (
        Sandbox(Faults(latency_ms=60)) as sandbox,
        scene(database, tmp_path, sandbox, "sms", settings=settings) as outrider,
    ):
        run_id = await launch(
            outrider, [message(Channel.SMS, "t", body="Hi")], people(count), batch_size=count // 30
        )
        async with working(outrider):
            await until(lambda: sandbox.requests >= count // 6)
            replica = await asyncio.to_thread(server.back_up)
            behind = sandbox.requests
            await until(lambda: sandbox.requests >= min(behind + count // 6, count - 20))
            await asyncio.to_thread(server.replaced_by, replica)
            async with asyncio.timeout(WAIT_SECONDS):
                while (found := await quarantine(outrider)) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert found.reason == RestoredDatabase.MOVED
            called = sandbox.requests
            await asyncio.sleep(1.0)
            assert sandbox.requests == called
            assert called < count
            await outrider.database_releaser.release("test")
            accounting = await until_terminal(outrider, run_id, seconds=600)
    assert accounting.sent == count
    assert sandbox.deliveries.total() == count
    assert set(sandbox.deliveries.values()) == {1}

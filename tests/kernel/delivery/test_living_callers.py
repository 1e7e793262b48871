"""A worker that lost its lease may still be calling: seen here, gone, or nobody knows."""

import asyncio
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.ports.presence import Presence
from outrider.testing.launches import target
from tests.support.doubt_scene import EAGER, PATIENCE_SECONDS, submit
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working


@pytest.mark.parametrize("presence", Presence)
async def test_what_is_known_of_a_worker_that_lost_its_lease(
    database: str, tmp_path: Path, presence: Presence
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        mail = target("t", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, mail, limits=EAGER) as outrider:
            await submit(outrider, "smtp", 1)
            async with working(outrider), asyncio.timeout(PATIENCE_SECONDS):
                intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "i-0")
                while intent.doubted_at is None:
                    await asyncio.sleep(0.02)
                    intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "i-0")
            async with raw_sql(database) as raw:
                await raw.run(
                    "INSERT INTO lost_leases (job_id, fence, worker_id, lost_at)"
                    " SELECT job_id, attempt_fence, 'w', doubted_at FROM channel_outbox"
                )
            living = LivingCallers(outrider.foundation, lambda _: presence)
            found = await living.of(DEFAULT_SCOPE, [intent.outbox_id])
    match presence:
        case Presence.GONE:
            assert found == {}
        case Presence.RUNS:
            assert found == {intent.outbox_id: None}
        case Presence.UNKNOWN:
            assert (found[intent.outbox_id] or intent.doubted_at) > intent.doubted_at

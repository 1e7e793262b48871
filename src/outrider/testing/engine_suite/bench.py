"""The bench of the engine suite: an Outrider with the engine, a provider, and views of both.

A front is a second view of the same Outrider, as another process would have it: with other
settings, or with an engine that cannot be reached.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, StepRetries
from outrider.domain.errors import EngineUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId, TenantId
from outrider.domain.keys import KeyId, KeyScope, Principal
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.retry import RetrySchedule
from outrider.domain.rollouts import RolloutStep
from outrider.domain.run_events import RunEvent
from outrider.domain.signals import AskedSignal, Signal
from outrider.domain.states import TERMINAL_RUNS, Channel, RunStatus
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import paging, run_jobs, run_log
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer
from outrider.kernel.transactions.run_jobs import JobLine
from outrider.limits.kernel import Limits
from outrider.ports.engine import Engine, Jobs, Stalled, Work, Worker
from outrider.settings import Settings
from outrider.testing.launches import (
    ACTOR,
    message,
    observe,
    people,
    registry,
    remembering,
    target,
)

SMS, MAIL = "sms.all", "mail.all"
PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.01
SLOW_MS = 30
MOST = 10_000
SOON = RetrySchedule(first_seconds=0.1)
IN_AN_HOUR = RetrySchedule(first_seconds=3_600)
LIMITS = Limits(
    lease_seconds=5.0, heartbeat_seconds=1.0, idle_poll_seconds=0.02, rescue_interval_seconds=0.05,
    stalled_look_seconds=0.05, stalled_after_seconds=0.05, stalled_retell_seconds=0.3,
    reconcile_runs_seconds=0.1, router_poll_seconds=0.05, job_max_attempts=2,
)  # fmt: skip
"""Short polling intervals, so that a test need not wait."""
ADMIN = Principal(DEFAULT_SCOPE, KeyId(""), "ada", frozenset({KeyScope.ADMIN}))


class UnreachableEngine(Engine):
    """Cannot be notified; it still knows the name under which others know a run."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.polls_queue = engine.polls_queue

    async def start(self, run: Work) -> None:
        raise EngineUnavailable(f"no notification of {run}")

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:
        raise EngineUnavailable(f"no notification of {signal} {step_id} to {run}")

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        raise EngineUnavailable(f"no notification of {stalled}")

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        return self._engine.reference(tenant_id, run_id)

    def worker(self, jobs: Jobs) -> AbstractAsyncContextManager[Worker]:
        return self._engine.worker(jobs)


@dataclass(frozen=True)
class EngineBench:
    """`sandbox` is the provider behind both targets, SMS and MAIL; only the first remembers."""

    outrider: Outrider
    sandbox: Sandbox

    def unreachable(self) -> "EngineBench":
        """A front whose notifications never reach the engine."""
        front = replace(self.outrider)
        front.engine = UnreachableEngine(self.outrider.engine)
        return EngineBench(front, self.sandbox)

    def with_settings(self, **changes: object) -> "EngineBench":
        settings = self.outrider.settings.model_copy(update=changes)
        front = replace(self.outrider, settings=settings)
        front.engine = self.outrider.engine
        return EngineBench(front, self.sandbox)

    def with_limits(self, **changes: Any) -> "EngineBench":
        return EngineBench(
            replace(self.outrider, limits=replace(self.outrider.limits, **changes)), self.sandbox
        )

    @asynccontextmanager
    async def at_work(self, retry: RetrySchedule = SOON) -> AsyncIterator[None]:
        """A worker in the background; it is stopped afterwards, and its errors are raised."""
        async with self.outrider.worker(retry=retry) as worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            try:
                yield
            finally:
                worker.stop()

    async def campaign(
        self,
        count: int,
        *,
        batch_size: int = 10,
        order: tuple[str, ...] = (LAUNCH,),
        submission_target: str = SMS,
        require_approval: bool = False,
        retry_policy: Mapping[str, StepRetries] | None = None,
        rollout: tuple[RolloutStep, ...] = (),
    ) -> CampaignId:
        channel = Channel.EMAIL if submission_target == MAIL else Channel.SMS
        definition = CampaignDefinition(
            "conformance", order, (message(channel, submission_target),), batch_size,
            require_approval=require_approval, retry_policy=retry_policy or {},
            rollout=rollout,
        )  # fmt: skip
        campaign_id, _ = await self.outrider.deployer.create(
            DEFAULT_SCOPE, definition, people(count), ACTOR
        )
        return campaign_id

    async def control(
        self, campaign_id: CampaignId, action: Action, phase: str = LAUNCH
    ) -> ControlAnswer:
        return await self.outrider.phase_controller.control(
            DEFAULT_SCOPE, campaign_id, phase, Control(action, ACTOR)
        )

    async def started(self, campaign_id: CampaignId, phase: str = LAUNCH) -> RunId:
        answer = await self.control(campaign_id, Action.START, phase)
        assert answer.run_id is not None
        return answer.run_id

    async def launched(self, count: int) -> RunId:
        return await self.started(await self.campaign(count))

    async def launched_slowly(self, count: int) -> tuple[CampaignId, RunId]:
        """With a slow provider, so that there is something to steer."""
        self.sandbox.faults.latency_ms = SLOW_MS
        campaign_id = await self.campaign(count)
        return campaign_id, await self.started(campaign_id)

    async def launched_and_paused(self, count: int) -> tuple[CampaignId, RunId]:
        campaign_id = await self.campaign(count)
        run_id = await self.started(campaign_id)
        await self.control(campaign_id, Action.PAUSE)
        return campaign_id, run_id

    async def paused_after(self, requests: int, campaign_id: CampaignId, run_id: RunId) -> None:
        """None of its work is in progress any more."""
        await self.until_requests(requests)
        await self.control(campaign_id, Action.PAUSE)
        await self.until_jobs(run_id, lambda job: job.status != "locked")

    async def signal(self, run_id: RunId, signal: Signal, step_id: str | None = None) -> None:
        asked = AskedSignal(signal, self.outrider.ids.new(), step_id)
        answer = await self.outrider.run_signaller.signal(ADMIN, run_id, asked)
        assert answer.changed, answer

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if await reached():
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def until_requests(self, count: int) -> None:
        async def reached() -> bool:
            return self.sandbox.requests >= count

        await self.until(reached)

    async def ended(self, run_id: RunId) -> Accounting:
        """Watch a run to its end; its accounting adds up at every check."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                run, accounting = await observe(self.outrider, run_id)
                assert accounting.holds, accounting
                if RunStatus(run.status) in TERMINAL_RUNS:
                    return accounting
                await asyncio.sleep(LOOK_SECONDS)

    async def another_run(self) -> None:
        """Earlier notifications have been processed once a whole run has completed."""
        assert (await self.ended(await self.launched(5))).sent == 5

    async def events(self, run_id: RunId) -> list[RunEvent]:
        return await self.outrider.store.read(run_log.events_after(run_id, 0, MOST))

    async def types(self, run_id: RunId) -> list[str]:
        return [event.type for event in await self.events(run_id)]

    async def jobs(self, run_id: RunId) -> list[JobLine]:
        return await self.outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, MOST))

    async def reasons(self, run_id: RunId) -> dict[tuple[str, str], int]:
        found = await self.outrider.store.read(run_jobs.reason_counts(run_id))
        return {(each.status, each.reason): each.items for each in found}

    async def until_jobs(self, run_id: RunId, reached: Callable[[JobLine], bool]) -> None:
        async def all_are() -> bool:
            return all(reached(job) for job in await self.jobs(run_id))

        await self.until(all_are)


@asynccontextmanager
async def engine_bench(
    settings: Settings, folder: Path, sandbox: Sandbox | None = None
) -> AsyncIterator[EngineBench]:
    """Over the database and the engine of these settings; other files are in the folder."""
    async with sandbox or Sandbox() as provider:
        path = folder / "registry.json"
        sms = target(SMS, "sms", provider.http_url)
        path.write_bytes(registry(sms, target(MAIL, "smtp", provider.smtp_url)))
        # The sandbox remembers every SMS reference.
        targets = remembering(SMS, given=settings.targets)
        places = {"registry": path, "artifacts": folder / "artifacts", "spool": folder / "spool"}
        given = settings.model_copy(update={**places, "targets": targets})
        async with open_outrider(given, limits=LIMITS) as outrider:
            await outrider.store.migrate()
            yield EngineBench(outrider, provider)

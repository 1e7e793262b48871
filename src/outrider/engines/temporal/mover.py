"""A worker's part in Temporal: it polls for workflow tasks and for jobs, and runs them here."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from outrider.engines.temporal.activities import WorkActivities
from outrider.engines.temporal.connection import TemporalConnection
from outrider.engines.temporal.workflows import WorkWorkflow
from outrider.limits.engines import (
    TEMPORAL_STICKY_SECONDS,
    TEMPORAL_STOP_SECONDS,
    TEMPORAL_WORKFLOWS_CACHED,
)
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS
from outrider.limits.kernel import Limits
from outrider.ports.engine import WorkKind


def task_queue(name: str, kind: WorkKind) -> str:
    """Lanes have their own queue, and their own slots on each worker: a single message never waits
    behind a campaign."""
    return name if kind is WorkKind.RUN else f"{name}-lanes"


class TemporalMover:
    def __init__(
        self,
        connection: TemporalConnection,
        activities: WorkActivities,
        task_queue: str,
        limits: Limits,
    ) -> None:
        self._connection = connection
        self._activities = activities
        self._task_queue = task_queue
        self._limits = limits
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop polling; running jobs are finished or handed back first."""
        self._stopping.set()

    async def run(self) -> None:
        client = await self._connection.reach()
        runs = self._worker(client, WorkKind.RUN, self._limits.jobs_in_parallel)
        lanes = self._worker(client, WorkKind.LANE, self._limits.lanes_in_parallel)
        async with runs, lanes:
            while not self._stopping.is_set():
                # An idle worker makes no calls that would re-read its key, so it does so here.
                await self._connection.client()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CREDENTIAL_REREAD_SECONDS):
                        await self._stopping.wait()

    def _worker(self, client: Client, kind: WorkKind, places: int) -> Worker:
        return Worker(
            client,
            task_queue=task_queue(self._task_queue, kind),
            workflows=[WorkWorkflow],
            activities=[self._activities.look, self._activities.process],
            max_cached_workflows=TEMPORAL_WORKFLOWS_CACHED,
            max_concurrent_activities=places,
            graceful_shutdown_timeout=timedelta(seconds=TEMPORAL_STOP_SECONDS),
            # How long other workers leave its sticky workflows to this one: no longer than its
            # jobs.
            sticky_queue_schedule_to_start_timeout=timedelta(
                seconds=min(self._limits.lease_seconds, TEMPORAL_STICKY_SECONDS)
            ),
        )

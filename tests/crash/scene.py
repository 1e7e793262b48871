"""The scene of a crash: one launched campaign, its worker processes, its provider, its witness.

A test starts workers and kills them; `ends_well` then checks the promise: nothing lost, nothing
sent twice, doubts settled by evidence, and a certificate that holds.
"""

import asyncio
from enum import Enum
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, RunId
from outrider.domain.rollouts import RolloutStep
from outrider.domain.run_events import FIRST_LOGICAL_ATTEMPT
from outrider.domain.states import Channel, ItemStatus, RunStatus
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.receipts.doubt_resolver import Reconciliation
from outrider.kernel.transactions import ledger_items, run_records
from outrider.kernel.transactions.doubts import Doubt, DoubtVerdict
from outrider.kernel.transactions.ledger_items import Item
from outrider.limits.gateways import SMTP_CONNECTIONS
from outrider.testing import launches
from tests.crash.watcher import Watcher
from tests.crash.witness import Witness
from tests.crash.workers import WorkerProcess
from tests.support.run_logs import check_against_log, events_of

ACTOR = "crash test"
MAIL_WINDOW_ITEMS = SMTP_CONNECTIONS
CALLS_SECONDS = 60.0


class Provider(Enum):
    """Two kinds of provider: one that knows a reference again, and one that never does."""

    SMS = Channel.SMS
    MAIL = Channel.EMAIL

    @property
    def dedupes(self) -> bool:
        return self is Provider.SMS

    @property
    def target(self) -> str:
        return self.name.lower()


class Scene:
    def __init__(
        self, database: str, registry: Path, folder: Path, outrider: Outrider, sandbox: Sandbox,
        witness: Witness,
    ) -> None:  # fmt: skip
        self.sandbox = sandbox
        self.witness = witness
        self.outrider = outrider
        self.workers: list[WorkerProcess] = []
        self.database = database
        self.registry = registry
        self._folder = folder
        self._provider = Provider.SMS
        self._run_id: RunId | None = None
        self._watcher: Watcher | None = None

    @property
    def run_id(self) -> RunId:
        assert self._run_id, "nothing was launched"
        return self._run_id

    @property
    def watcher(self) -> Watcher:
        assert self._watcher, "nothing was launched"
        return self._watcher

    async def launch(
        self,
        provider: Provider,
        count: int,
        *,
        batch_size: int,
        body: str = "An offer for you",
        rollout: tuple[RolloutStep, ...] = (),
    ) -> None:
        self._provider = provider
        offer = launches.message(provider.value, provider.target, body=body)
        self._run_id = await launches.launch(
            self.outrider, [offer], launches.people(count), batch_size=batch_size, rollout=rollout
        )
        self._watcher = Watcher(self.outrider, self._run_id)

    def start_worker(self, **options: Any) -> WorkerProcess:
        name = f"worker-{len(self.workers) + 1}"
        worker = WorkerProcess(self.outrider.settings, self._folder, name, **options)
        self.workers.append(worker)
        return worker

    async def provider_was_called(self, times: int) -> bool:
        """Wait until the provider has received that many more requests; False: the run came to rest
        first."""
        wanted = self.sandbox.requests + times
        async with asyncio.timeout(CALLS_SECONDS):
            while self.sandbox.requests < wanted:
                if self.watcher.latest is not None and self.watcher.latest.is_at_rest:
                    return False
                await asyncio.sleep(0.001)
        return True

    async def close(self) -> None:
        for worker in self.workers:
            worker.discard()
        if self._watcher is not None:
            await self._watcher.stop()

    async def items(self) -> list[Item]:
        page = ledger_items.items_of_run(DEFAULT_SCOPE, self.run_id, most=10_000)
        return await self.outrider.store.read(page)

    async def doubts(self) -> list[Doubt]:
        found = self.outrider.doubt_resolver.doubts(DEFAULT_SCOPE, self.run_id)
        return [doubt async for doubt in found]

    # what must hold

    async def comes_to_rest(self) -> list[Doubt]:
        """All is terminal or in doubt; nothing was called twice on the way. Returns the doubts."""
        look = await self.watcher.until(lambda look: look.is_at_rest)
        self.nothing_happened_twice()
        doubts = await self.doubts()
        if self._provider.dedupes:
            assert not doubts, "a provider that dedupes can always be asked again"
            assert look.is_terminal or not look.accounting.in_doubt, look
        return doubts

    def nothing_happened_twice(self) -> None:
        assert not self.witness.delivered_twice()
        if not self._provider.dedupes:
            assert not self.witness.called_after_delivery()

    async def resolve_doubts(self) -> Reconciliation:
        """The provider's log says what it received; what it did not receive may be called again."""
        received = {IdempotencyKey(reference) for reference in self.witness.deliveries()}
        return await self.outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE,
            run_id=self.run_id,
            received=received,
            absent=DoubtVerdict.RESUBMIT,
            evidence=f"log {self.witness.log_path.name}",
            actor=ACTOR,
        )

    async def ends_well(self) -> None:
        """Resolve what is in doubt, and prove one delivery for each item, no more and no less."""
        settled = await self.resolve_doubts()
        assert not settled.left, settled
        look = await self.watcher.until(lambda look: look.is_terminal)
        await self.watcher.stop()
        self.nothing_happened_twice()
        items = await self.items()
        assert look.status is RunStatus.COMPLETED, look
        assert len(items) == look.accounting.intended == look.accounting.sent, look
        assert {item.status for item in items} == {ItemStatus.SENT}
        assert self.witness.deliveries() == {item.reference: 1 for item in items}
        certificate = await self.outrider.certifier.certify(DEFAULT_SCOPE, self.run_id)
        assert certificate.holds, certificate.criteria
        await self.log_agrees()

    async def log_agrees(self) -> None:
        """Whatever died where, the run's log has every step once, and the rows agree with it."""
        run = await self.outrider.store.read(run_records.run(DEFAULT_SCOPE, self.run_id))
        await check_against_log(self.outrider, run.campaign_id)
        told = await events_of(self.outrider, self.run_id)
        steps = [event for event in told if event.step_id]
        assert {event.logical_attempt for event in steps} == {FIRST_LOGICAL_ATTEMPT}
        kinds = [(event.step_id, event.type) for event in steps]
        assert len(kinds) == len(set(kinds))

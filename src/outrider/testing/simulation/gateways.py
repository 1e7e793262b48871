"""One process's way to the simulated providers: what it may call, ask and hear of each kind."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from outrider.domain.call_results import CallResult, NotBegun
from outrider.domain.evidence import ABSENT, Finding, LookedUp, LookUp, Match, Receipts, silence
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import NEVER, ReferenceMemory
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.ports.gateway import Gateway, LookUpQuestion, Reservation
from outrider.ports.receipts import ReceiptReader
from outrider.secrets.store import load_secrets
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import (
    RECORDS_BEHIND_SECONDS,
    REMEMBERS,
    Kind,
    Provider,
    text_of,
)

NO_SECRETS = load_secrets()
LOOK_UPS = {
    Kind.ASKED: LookUp(Match.REFERENCE, RECORDS_BEHIND_SECONDS, 86_400.0, "its records", "none"),
    Kind.CONTENT: LookUp(
        Match.CONTENT, RECORDS_BEHIND_SECONDS, 86_400.0, "its records", "none", ("to", "text")
    ),
}
REPORTS = Receipts("reference", within_seconds=20.0)


class SimulatedGateway:
    window_items = 8
    concurrency = 3
    recipe = "simulated"
    records = "simulated"

    def __init__(self, provider: Provider, process: Process) -> None:
        self.type = GATEWAY_TYPES[provider.gateway_type]
        if provider.kind is Kind.RECEIPT:
            self.type = replace(self.type, evidence=replace(self.type.evidence, receipts=REPORTS))
        remembers = REMEMBERS.get(provider.kind)
        self.memory = ReferenceMemory.parse(remembers) if remembers else NEVER
        self.looks_up = LOOK_UPS.get(provider.kind)
        self._provider = provider
        self._process = process

    async def call(self, reservation: Reservation) -> CallResult:
        await self._process.take(0.001, 0.01)
        if not reservation.begin():
            return NotBegun("withheld")
        self._provider.on_begin(self._provider, reservation, self._process)
        # What is on its way arrives, whatever becomes of its sender.
        answer = await asyncio.shield(asyncio.create_task(self._provider.answer(reservation)))
        await self._process.reach()
        return answer

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        await self._process.take(0.01, 0.1)
        if self._provider.random.random() < self._provider.faults.answer_lost_rate:
            return {each.reference: silence("simulated") for each in questions}
        return {each.reference: self._found(each) for each in questions}

    def _found(self, asked: LookUpQuestion) -> LookedUp:
        if self._provider.kind is Kind.CONTENT:
            alike = self._provider.alike(asked.address, text_of(asked.payload, asked.body))
            return LookedUp(Finding.FOUND, alike) if alike else ABSENT
        if self._provider.has(str(asked.reference)):
            return LookedUp(Finding.FOUND, (f"message-{asked.reference}",))
        return ABSENT

    async def trim(self, connections: int) -> None:
        pass

    async def close(self) -> None:
        pass


class _AnyReports:
    """They are handed to the intake as they are: how callbacks are signed is tested elsewhere."""


class SimulatedGateways(Gateways):
    """One process's way to the providers of the world."""

    def __init__(self, providers: Mapping[str, Provider], process: Process) -> None:
        super().__init__(NO_SECRETS)
        self._providers = providers
        self._process = process

    def get_ready(self) -> None:
        pass

    def receipt_reader(
        self,
        submission_target: str,
        gateway_type: str,  # noqa: ARG002
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,  # noqa: ARG002
    ) -> ReceiptReader | None:
        reports = self._providers[submission_target].kind is Kind.RECEIPT
        return _AnyReports() if reports else None  # type: ignore[return-value]

    def _make(
        self,
        submission_target: str,
        gateway_type: str,  # noqa: ARG002
        gateway_url: str,  # noqa: ARG002
        workspace: WorkspaceName,  # noqa: ARG002
    ) -> Gateway:
        return SimulatedGateway(self._providers[submission_target], self._process)

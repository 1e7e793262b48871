"""Simulated providers, one for each kind of evidence: a key, a look-up, or nothing at all.

Each may turn a call away, lose its answer, or lose the call itself; and what it took is its own
record, which nobody in the simulated world can see except by asking as its kind allows.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.evidence import ABSENT, Finding, LookedUp, LookUp, Match, silence
from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.reference_memory import FOR_GOOD, NEVER
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.ports.gateway import Gateway, LookUpQuestion, Reservation
from outrider.secrets.store import load_secrets
from outrider.testing.simulation.process import Process

RECORDS_BEHIND_SECONDS = 3.0
NO_SECRETS = load_secrets()
LOOK_UP = LookUp(Match.REFERENCE, RECORDS_BEHIND_SECONDS, 86_400.0, "its records", "simulated")


class Kind(StrEnum):
    KEY = "key"
    """It recognises a reference for good."""
    ASKED = "asked"
    """It can be asked, and its records are a few seconds behind."""
    SILENT = "silent"
    """Only a person can find out."""


@dataclass
class ProviderFaults:
    turned_away_rate: float = 0.0
    rejected_rate: float = 0.0
    call_lost_rate: float = 0.0
    answer_lost_rate: float = 0.0
    slowest_seconds: float = 0.2

    def heal(self) -> None:
        self.turned_away_rate = self.call_lost_rate = self.answer_lost_rate = 0.0


@dataclass
class Provider:
    name: str
    kind: Kind
    faults: ProviderFaults
    random: random.Random
    deliveries: Counter[str] = field(default_factory=Counter)
    """How often a recipient got the message of this reference."""
    delivered_at: dict[str, float] = field(default_factory=dict)
    outbox_ids: dict[str, OutboxId] = field(default_factory=dict)
    """Of what was called, by its reference."""
    on_begin: Callable[[OutboxId], None] = lambda _outbox_id: None

    def begin(self, reservation: Reservation) -> None:
        self.outbox_ids[str(reservation.reference)] = reservation.outbox_id
        self.on_begin(reservation.outbox_id)

    async def answer(self, reference: str) -> CallResult:
        faults, chance = self.faults, self.random
        await self._some_time()
        if chance.random() < faults.turned_away_rate:
            return Throttled("simulated", 1.0)
        if chance.random() < faults.call_lost_rate:
            return AttemptError(Progress.SENT_NO_ANSWER, "connection_lost")
        if chance.random() < faults.rejected_rate and not self.deliveries[reference]:
            return Rejected("invalid_recipient")
        self.take(reference)
        await self._some_time()
        if chance.random() < faults.answer_lost_rate:
            return AttemptError(Progress.SENT_NO_ANSWER, "connection_lost")
        return Accepted(f"message-{reference}")

    async def _some_time(self) -> None:
        await asyncio.sleep(self.random.uniform(0.001, self.faults.slowest_seconds))

    def take(self, reference: str) -> None:
        if self.kind is Kind.KEY and self.deliveries[reference]:
            return
        self.deliveries[reference] += 1
        self.delivered_at.setdefault(reference, asyncio.get_running_loop().time())

    def has(self, reference: str) -> bool:
        """As its records say, which are behind."""
        now = asyncio.get_running_loop().time()
        taken_at = self.delivered_at.get(reference)
        return taken_at is not None and now - taken_at >= RECORDS_BEHIND_SECONDS / 2


class SimulatedGateway:
    window_items = 8
    concurrency = 3
    recipe = "simulated"
    records = "simulated"

    def __init__(self, provider: Provider, process: Process) -> None:
        self.type = GATEWAY_TYPES["sms"]
        self.memory = FOR_GOOD if provider.kind is Kind.KEY else NEVER
        self.looks_up = LOOK_UP if provider.kind is Kind.ASKED else None
        self._provider = provider
        self._process = process

    async def call(self, reservation: Reservation) -> CallResult:
        await self._process.take(0.001, 0.01)
        if not reservation.begin():
            return NotBegun("withheld")
        self._provider.begin(reservation)
        # What is on its way arrives, whatever becomes of its sender.
        answer = await asyncio.shield(
            asyncio.create_task(self._provider.answer(str(reservation.reference)))
        )
        await self._process.reach()
        return answer

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        await self._process.take(0.01, 0.1)
        if self._provider.random.random() < self._provider.faults.answer_lost_rate:
            return {each.reference: silence("simulated") for each in questions}
        return {
            each.reference: LookedUp(Finding.FOUND, (f"message-{each.reference}",))
            if self._provider.has(str(each.reference))
            else ABSENT
            for each in questions
        }

    async def trim(self, connections: int) -> None:
        pass

    async def close(self) -> None:
        pass


class SimulatedGateways(Gateways):
    """One process's way to the providers of the world."""

    def __init__(self, providers: Mapping[str, Provider], process: Process) -> None:
        super().__init__(NO_SECRETS)
        self._providers = providers
        self._process = process

    def get_ready(self) -> None:
        pass

    def _make(
        self,
        submission_target: str,
        gateway_type: str,  # noqa: ARG002
        gateway_url: str,  # noqa: ARG002
        workspace: WorkspaceName,  # noqa: ARG002
    ) -> Gateway:
        return SimulatedGateway(self._providers[submission_target], self._process)

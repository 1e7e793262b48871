"""Simulated providers, one for each kind of evidence, each with a record of what it took.

Each may turn a call away, lose its answer, or lose the call itself. Nobody in the simulated world
can see its record except by asking as its kind allows, or by its reports.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    Accepted,
    AttemptError,
    CallResult,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.ids import OutboxId
from outrider.ports.gateway import Reservation
from outrider.testing.simulation.process import Process

RECORDS_BEHIND_SECONDS = 3.0
REMEMBERED_SECONDS = 60.0
"""As the targets say. The provider remembers longer, by as much as clocks are wrong here."""
FORGOTTEN_SECONDS = 130.0


class Kind(StrEnum):
    KEY = "key"
    """It recognises a reference for good."""
    MEMORY = "memory"
    """It recognises a reference for a while."""
    IN_FLIGHT = "inflight"
    """It refuses a reference while the first call is in progress, and forgets it then."""
    ASKED = "asked"
    """It can be asked for a reference, and its records are a few seconds behind."""
    CONTENT = "content"
    """It can be asked for a recipient and a text, which several messages may share."""
    RECEIPT = "receipt"
    """It reports what arrived under our reference."""
    COLLAPSES = "collapses"
    """On the device a repeat replaces the first; yet it is a second call, and counted as one."""
    SILENT = "silent"
    """Only a person can find out."""


GATEWAY_TYPE = {
    Kind.KEY: "sms", Kind.MEMORY: "push", Kind.IN_FLIGHT: "push", Kind.ASKED: "smtp",
    Kind.CONTENT: "sms", Kind.RECEIPT: "sms", Kind.COLLAPSES: "push", Kind.SILENT: "sms",
}  # fmt: skip
REMEMBERS = {Kind.KEY: "for_good", Kind.MEMORY: "60s", Kind.IN_FLIGHT: "in_flight"}
REJECTIONS = {"sms": "invalid_recipient", "push": "unregistered_token", "smtp": "invalid_recipient"}


@dataclass
class ProviderFaults:
    turned_away_rate: float = 0.0
    rejected_rate: float = 0.0
    call_lost_rate: float = 0.0
    answer_lost_rate: float = 0.0
    slowest_seconds: float = 0.2

    @classmethod
    def drawn(cls, draws: random.Random) -> "ProviderFaults":
        return cls(
            turned_away_rate=draws.choice([0.0, 0.0, 0.1]),
            rejected_rate=draws.choice([0.0, 0.05]),
            call_lost_rate=draws.choice([0.0, 0.1]),
            answer_lost_rate=draws.choice([0.0, 0.1, 0.3]),
            slowest_seconds=draws.choice([0.01, 0.2, 2.0]),
        )

    def heal(self) -> None:
        self.turned_away_rate = self.call_lost_rate = self.answer_lost_rate = 0.0


class Taken(NamedTuple):
    """A message as its provider has it on record."""

    reference: str
    address: str
    text: str
    at: float
    message_id: str
    """The provider's own: a reference that it does not recognise makes another message."""


def _nobody(*_given: object) -> None:
    """Where nobody watches."""


@dataclass
class Provider:
    name: str
    kind: Kind
    faults: ProviderFaults
    random: random.Random
    deliveries: Counter[str] = field(default_factory=Counter)
    """How often a recipient got the message of this reference."""
    record: dict[str, Taken] = field(default_factory=dict)
    """The first message of each reference."""
    messages: list[Taken] = field(default_factory=list)
    outbox_ids: dict[str, OutboxId] = field(default_factory=dict)
    """Of what was called, by its reference."""
    under_way: Counter[str] = field(default_factory=Counter)
    on_begin: Callable[["Provider", Reservation, Process], None] = _nobody
    on_end: Callable[[Reservation], None] = _nobody
    on_take: list[Callable[["Provider", Taken], None]] = field(default_factory=list)

    @property
    def gateway_type(self) -> str:
        return GATEWAY_TYPE[self.kind]

    async def answer(self, reservation: Reservation) -> CallResult:
        reference = str(reservation.reference)
        self.under_way[reference] += 1
        try:
            if self.kind is Kind.IN_FLIGHT and self.under_way[reference] > 1:
                return Rejected(DUPLICATE_REFERENCE)
            return await self._answered(reservation, reference)
        finally:
            self.under_way[reference] -= 1
            self.on_end(reservation)

    async def _answered(self, reservation: Reservation, reference: str) -> CallResult:
        faults, chance = self.faults, self.random
        await self._some_time()
        if chance.random() < faults.turned_away_rate:
            return Throttled("simulated", 1.0)
        if chance.random() < faults.call_lost_rate:
            return AttemptError(Progress.SENT_NO_ANSWER, "connection_lost")
        if chance.random() < faults.rejected_rate and not self.deliveries[reference]:
            return Rejected(REJECTIONS[self.gateway_type])
        text = text_of(reservation.payload, reservation.body)
        message_id = self.take(reference, reservation.address, text)
        await self._some_time()
        if chance.random() < faults.answer_lost_rate:
            return AttemptError(Progress.SENT_NO_ANSWER, "connection_lost")
        return Accepted(message_id)

    async def _some_time(self) -> None:
        await asyncio.sleep(self.random.uniform(0.001, self.faults.slowest_seconds))

    def take(self, reference: str, address: str, text: str) -> str:
        """Returns the id of the message: the first one's, if the reference is recognised."""
        if self.knows(reference):
            return self.record[reference].message_id
        taken = Taken(reference, address, text, _now(), f"message-{len(self.messages)}")
        self.messages.append(taken)
        self.deliveries[reference] += 1
        self.record.setdefault(reference, taken)
        for hears in self.on_take:
            hears(self, taken)
        return taken.message_id

    def knows(self, reference: str) -> bool:
        """Whether it recognises it, so that a repeat is no second message."""
        if not self.deliveries[reference]:
            return False
        if self.kind is Kind.MEMORY:
            return _now() - self.record[reference].at < FORGOTTEN_SECONDS
        return self.kind is Kind.KEY

    def has(self, reference: str) -> bool:
        """As its records say, which are behind."""
        taken = self.record.get(reference)
        return taken is not None and _is_on_record(taken)

    def alike(self, address: str, text: str) -> tuple[str, ...]:
        """The ids of all messages on record that went to this address with this text."""
        return tuple(
            each.message_id
            for each in self.messages
            if each.address == address and each.text == text and _is_on_record(each)
        )


def _is_on_record(taken: Taken) -> bool:
    return _now() - taken.at >= RECORDS_BEHIND_SECONDS / 2


def _now() -> float:
    return asyncio.get_running_loop().time()


def text_of(payload: Mapping[str, Any] | None, body: str) -> str:
    return str((payload or {}).get("message") or body)

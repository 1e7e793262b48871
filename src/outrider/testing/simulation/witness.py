"""The witness: looks at the ledger after every commit, and at every call as it begins.

It knows what providers really took, which no process in the world does. What it finds is wrong at
that moment, even if it would have been put right later.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apsw

from outrider.domain.ids import OutboxId, RunId
from outrider.domain.screen_policies import ScreenPolicies
from outrider.kernel.transactions import accountings
from outrider.ports.gateway import Reservation
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import Kind, Provider, Taken, text_of

SENT = ("sent", "posted")
LEDGER = frozenset({"channel_outbox", "job_queue"})
CLOCK_STEP_SECONDS = 30.0
SECONDS_PER_MINUTE = 60
Address = tuple[str, str]
Message = tuple[str, ...]
"""What a provider tells apart: a reference; of one that is asked by content, address and text. Of
several alike, nobody can say which one arrived, and it makes no difference to anybody."""


@dataclass
class Witness:
    database: apsw.Connection
    ask: Callable[..., Any]
    """Runs a script of the kernel at once."""
    findings: list[str]
    duplicates: int = 0
    lost: int = 0
    intended: dict[RunId, int] = field(default_factory=dict)
    quiet_runs: set[str] = field(default_factory=set)
    """Paused or stopped: nothing of them may begin now."""
    policies: ScreenPolicies | None = None
    """Since the beginning, if there are any."""
    _commits: int = 0
    _changes: int = 0
    _changed: set[str] = field(default_factory=set)
    _sent: set[OutboxId] = field(default_factory=set)
    _alike: dict[OutboxId, Message] = field(default_factory=dict)
    _called: dict[Message, set[OutboxId]] = field(default_factory=lambda: defaultdict(set))
    _taken: Counter[Message] = field(default_factory=Counter)
    _told: Counter[Message] = field(default_factory=Counter)
    """How many of each the ledger says were sent."""
    _opened: dict[OutboxId, tuple[object, int]] = field(default_factory=dict)
    """The attempt that is open, and the commit that opened it."""
    _suppressed: dict[Address, int] = field(default_factory=dict)
    """The commit since which an address is suppressed."""
    _received: Counter[Address] = field(default_factory=Counter)
    _calling: dict[OutboxId, tuple[Address, Process]] = field(default_factory=dict)
    """Messages of workflows whose call is under way: one at a time for each address."""

    def __post_init__(self) -> None:
        self.database.set_update_hook(self._note_change)

    def _note_change(self, _what: int, _database: str, table: str, _row: int) -> None:
        self._changed.add(table)

    def find(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def committed(self) -> None:
        """After every transaction that wrote."""
        changes = self.database.total_changes()
        if changes == self._changes:
            return
        self._changes = changes
        self._commits += 1
        for address in self._rows("SELECT channel, address FROM suppressions WHERE topic = ''"):
            self._suppressed.setdefault(address, self._commits)
        if self._changed & LEDGER:
            self._look_at_items()
            self._check_accountings()
        self._changed.clear()

    def _look_at_items(self) -> None:
        for outbox_id, status, attempts, repeats, opened_at in self._rows(
            "SELECT id, status, attempts, repeats, attempt_opened_at FROM channel_outbox"
        ):
            if opened_at is not None:
                attempt = attempts, repeats, opened_at
                if self._opened.get(outbox_id, (None, 0))[0] != attempt:
                    self._opened[outbox_id] = attempt, self._commits
            if status in SENT and outbox_id not in self._sent:
                self._sent.add(outbox_id)
                alike = self._alike.get(outbox_id, ())
                self._told[alike] += 1
                if self._told[alike] > self._taken[alike]:
                    self.lost += 1
                    self.find(f"{outbox_id} is sent, and its provider never took it")
            elif status not in SENT and outbox_id in self._sent:
                self.find(f"{outbox_id} was sent, and is {status} now")

    def _check_accountings(self) -> None:
        if not self.intended:
            return
        for run_id, found in self.ask(accountings.accountings(self.intended)).items():
            if not found.holds:
                self.find(f"{run_id} does not add up: {found}")

    def begins(self, provider: Provider, reservation: Reservation, process: Process) -> None:
        """Immediately before the first byte of a call."""
        outbox_id = reservation.outbox_id
        alike = _message(provider, reservation)
        self._alike[outbox_id] = alike
        self._called[alike].add(outbox_id)
        provider.outbox_ids[str(reservation.reference)] = outbox_id
        [(run_id, origin, channel, address, urgent, answers)] = self._rows(
            "SELECT run_id, origin, channel, recipient_address, urgent, answers_receipt"
            " FROM channel_outbox WHERE id = ?", outbox_id,
        )  # fmt: skip
        whom = channel, (address or "").lower()
        if run_id in self.quiet_runs:
            self.find(f"{outbox_id} was called while its run was paused or stopped")
        suppressed_in = self._suppressed.get(whom)
        is_late = suppressed_in is not None and suppressed_in < self._opened[outbox_id][1]
        if is_late and answers is None:
            self.find(f"{outbox_id} was opened and called after its recipient had opted out")
        if not urgent:
            self._check_hours(outbox_id)
        if origin == "workflow":
            self._check_turn(outbox_id, whom)
            self._calling[outbox_id] = whom, process

    def _check_hours(self, outbox_id: OutboxId) -> None:
        quiet = None if self.policies is None else self.policies.quiet_hours
        if quiet is None:
            return
        ends = quiet.to_minute * SECONDS_PER_MINUTE
        if asyncio.get_running_loop().time() < ends - CLOCK_STEP_SECONDS - 1.0:
            self.find(f"{outbox_id} was called in quiet hours")

    def _check_turn(self, outbox_id: OutboxId, whom: Address) -> None:
        """Only of processes that live: what others left under way is in doubt."""
        for other, (address, process) in self._calling.items():
            if address == whom and other != outbox_id and process.is_well:
                self.find(f"{outbox_id} was called while {other} was, to the same address")

    def ends(self, reservation: Reservation) -> None:
        self._calling.pop(reservation.outbox_id, None)

    def takes(self, provider: Provider, taken: Taken) -> None:
        """A provider has it: its recipient gets a message."""
        outbox_id = provider.outbox_ids[taken.reference]
        alike = self._alike[outbox_id]
        self._taken[alike] += 1
        if self._taken[alike] > len(self._called[alike]):
            self.duplicates += 1
            self.find(f"{outbox_id} was delivered {self._taken[alike]} times")
        self._count_towards_cap(outbox_id)

    def _count_towards_cap(self, outbox_id: OutboxId) -> None:
        cap = None if self.policies is None else self.policies.frequency_cap
        [(channel, address, is_answer)] = self._rows(
            "SELECT channel, recipient_address, answers_receipt IS NOT NULL FROM channel_outbox"
            " WHERE id = ?", outbox_id,
        )  # fmt: skip
        whom = channel, (address or "").lower()
        self._received[whom] += 1
        if cap is not None and self._received[whom] > cap.messages and not is_answer:
            self.find(f"{address} got {self._received[whom]} messages, under a cap")

    def check_end(self) -> None:
        """What was taken is sent by now."""
        for alike, times in self._taken.items():
            if self._told[alike] < min(times, len(self._called[alike])):
                self.lost += 1
                found = sorted(self._called[alike])
                self.find(f"{found} were delivered {times} times, {self._told[alike]} are sent")

    def arrived(self, outbox_id: OutboxId) -> bool:
        """As a person finds out: one of those alike that nobody has said to be sent."""
        alike = self._alike.get(outbox_id, ())
        return self._taken[alike] > self._told[alike]

    def _rows(self, sql: str, *given: object) -> list[Any]:
        return self.database.execute(sql, given).fetchall()


def _message(provider: Provider, reservation: Reservation) -> Message:
    if provider.kind is Kind.CONTENT:
        return provider.name, reservation.address, text_of(reservation.payload, reservation.body)
    return provider.name, str(reservation.reference)

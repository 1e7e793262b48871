"""Planted bugs: each breaks one safeguard, and the simulation has to notice every one of them.

Most break the product. The others break a simulated provider or its world, which shows that the
witness would see it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from outrider.domain import evidence, frequency
from outrider.domain.call_results import Accepted, AttemptError, CallResult, Progress, Throttled
from outrider.domain.evidence import ABSENT
from outrider.domain.reference_memory import FOR_GOOD, ReferenceMemory
from outrider.domain.submission import AttemptFacts
from outrider.files.call_journal import MappedCallJournal
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.lane_backlog import AddressTurns
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.ports.gateway import Reservation
from outrider.ports.presence import Presence
from outrider.stores.sqlite.store import STATEMENTS
from outrider.testing.simulation import gateways
from outrider.testing.simulation.gateways import SimulatedGateway
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import Kind, Provider
from outrider.testing.simulation.world import World

Planted = AbstractContextManager[object]


@dataclass(frozen=True)
class Mutant:
    plant: Callable[[], Planted]
    in_product: bool = True


@contextmanager
def _statement(written: str, instead: str, *names: str) -> Iterator[None]:
    """The same statements without one of their conditions."""
    changed = {}
    for name in names:
        named = STATEMENTS[name]
        assert written in named.written, f"{name} has no such clause: {written}"
        changed[name] = replace(named, written=named.written.replace(written, instead))
    with patch.dict(STATEMENTS, changed):
        yield


def _says_not_sent() -> Planted:
    answered = Provider.answer

    async def answer(self: Provider, reservation: Reservation) -> CallResult:
        result = await answered(self, reservation)
        if isinstance(result, AttemptError):
            return replace(result, progress=Progress.NOT_SENT)
        return result

    return patch.object(Provider, "answer", answer)


def _hears_acceptance() -> Planted:
    answered = Provider.answer

    async def answer(self: Provider, reservation: Reservation) -> CallResult:
        result = await answered(self, reservation)
        return Accepted("never") if isinstance(result, Throttled) else result

    return patch.object(Provider, "answer", answer)


def _forgets_keys() -> Planted:
    return patch.object(Provider, "knows", lambda *_: False)


def _claims_memory() -> Planted:
    made = SimulatedGateway.__init__

    def remembering(self: SimulatedGateway, provider: Provider, process: Process) -> None:
        made(self, provider, process)
        if provider.kind is Kind.SILENT:
            self.memory = FOR_GOOD

    return patch.object(SimulatedGateway, "__init__", remembering)


def _never_quiet() -> Planted:
    async def nobody(*_given: object) -> dict[object, object]:
        return {}

    return patch.object(LivingCallers, "quiet_at", nobody)


def _always_turn() -> Planted:
    joined = AddressTurns.join

    def join(self: AddressTurns, backlog: object, due: object, address: str) -> bool:
        joined(self, backlog, due, address)  # type: ignore[arg-type]
        return True

    return patch.object(AddressTurns, "join", join)


MUTANTS: dict[str, Mutant] = {
    "a gateway says that a lost call was not sent": Mutant(_says_not_sent, in_product=False),
    "a gateway takes try-later for acceptance": Mutant(_hears_acceptance, in_product=False),
    "a provider forgets its references": Mutant(_forgets_keys, in_product=False),
    "a target claims a memory that it has not": Mutant(_claims_memory, in_product=False),
    "a target says that its records are never behind": Mutant(
        lambda: patch.dict(gateways.LOOK_UPS, {
            kind: replace(each, delay_seconds=0.0) for kind, each in gateways.LOOK_UPS.items()
        }), in_product=False,
    ),
    "a look-up takes silence for absence": Mutant(
        lambda: patch.object(gateways, "silence", lambda _why: ABSENT), in_product=False
    ),
    "the living are taken for dead": Mutant(
        lambda: patch.object(World, "presence", lambda *_: Presence.GONE), in_product=False
    ),
    "calls begin whatever the permit says": Mutant(
        lambda: patch.object(CallPermits, "may_begin", lambda *_: True)
    ),
    "a call is not noted before it begins": Mutant(
        lambda: patch.object(MappedCallJournal, "begin", lambda *_: None)
    ),
    "the last recipient of a job is left out": Mutant(lambda: _statement(
        "position BETWEEN :first_position AND :last_position",
        "position >= :first_position AND position < :last_position", "load_members",
    )),
    "a job counts one sent message too few": Mutant(
        lambda: _statement("sent = :sent", "sent = max(:sent - 1, 0)", "finish_job")
    ),
    "an acceptance is not recorded": Mutant(lambda: _statement(
        "o.status = 'queued'", "o.status = 'nowhere'", "close_accepted"
    )),
    "attempts are opened without the job's lease": Mutant(lambda: _statement(
        "AND fence = :fence AND status = 'locked'", "", "reserve_window", "open_due"
    )),
    "a held job can be claimed": Mutant(
        lambda: _statement("status = 'queued' AND paused", "paused", "claim_jobs", "claim_lanes")
    ),
    "a lease is lost before it expires": Mutant(lambda: _statement(
        "lease_expires_at <= :now", "locked_at <= :now", "rescue_expired"
    )),
    "attempts are opened while their run is paused": Mutant(lambda: _statement(
        "NOT (paused OR cancelled)", "1", "reserve_window", "reserve_fresh"
    )),
    "silence is tried again whoever was called": Mutant(
        lambda: patch.object(AttemptFacts, "is_remembered", True)
    ),
    "an earlier silence is forgotten": Mutant(lambda: _statement(
        "maybe_received = item.maybe_received", "maybe_received = 0", "close_retried"
    )),
    "opt-outs do not apply to attempts": Mutant(lambda: _statement(
        "s.channel = ", "s.channel <> ", "reserve_window", "reserve_fresh", "open_due",
        "reopen_window", "skip_suppressed",
    )),
    "the latest receipt replaces a stronger one": Mutant(lambda: _statement(
        "> (d.rank, d.occurred_at", "<> (d.rank, d.occurred_at", "fold_deliveries"
    )),
    "the frequency cap is always free": Mutant(
        lambda: patch.object(frequency, "free_again", lambda *_: None)
    ),
    "an address is sent to by several at once": Mutant(_always_turn),
    "a memory is relied on after its end": Mutant(
        lambda: patch.object(ReferenceMemory, "allows_repeat", lambda self, *_: self.is_memory)
    ),
    "absence is believed at once": Mutant(lambda: patch.object(
        evidence, "concludes_at", lambda _look_up, doubted_at: doubted_at
    )),
    "a call under way is forgotten with its lease": Mutant(_never_quiet),
}  # fmt: skip

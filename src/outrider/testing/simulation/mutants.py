"""Planted bugs: each breaks one safeguard, and the simulation has to notice every one of them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest.mock import patch

from outrider.domain.call_results import Accepted, AttemptError, CallResult, Progress, Throttled
from outrider.domain.evidence import ABSENT
from outrider.domain.reference_memory import FOR_GOOD
from outrider.files.call_journal import MappedCallJournal
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.ports.presence import Presence
from outrider.stores.sqlite.store import STATEMENTS
from outrider.testing.simulation import providers
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import Kind, Provider, SimulatedGateway
from outrider.testing.simulation.world import World

Planted = AbstractContextManager[object]


@contextmanager
def _statement(name: str, written: str, instead: str) -> Iterator[None]:
    """The same statement without one of its conditions."""
    named = STATEMENTS[name]
    assert written in named.written, f"{name} has no such clause: {written}"
    changed = replace(named, written=named.written.replace(written, instead))
    with patch.dict(STATEMENTS, {name: changed}):
        yield


def _says_not_sent() -> Planted:
    answered = Provider.answer

    async def answer(self: Provider, reference: str) -> CallResult:
        result = await answered(self, reference)
        if isinstance(result, AttemptError):
            return replace(result, progress=Progress.NOT_SENT)
        return result

    return patch.object(Provider, "answer", answer)


def _hears_acceptance() -> Planted:
    answered = Provider.answer

    async def answer(self: Provider, reference: str) -> CallResult:
        result = await answered(self, reference)
        return Accepted("never") if isinstance(result, Throttled) else result

    return patch.object(Provider, "answer", answer)


def _forgets_keys() -> Planted:
    def take(self: Provider, reference: str) -> None:
        self.deliveries[reference] += 1

    return patch.object(Provider, "take", take)


def _claims_memory() -> Planted:
    made = SimulatedGateway.__init__

    def remembering(self: SimulatedGateway, provider: Provider, process: Process) -> None:
        made(self, provider, process)
        if provider.kind is Kind.SILENT:
            self.memory = FOR_GOOD

    return patch.object(SimulatedGateway, "__init__", remembering)


MUTANTS: dict[str, Callable[[], Planted]] = {
    "a gateway says that a lost call was not sent": _says_not_sent,
    "a gateway takes try-later for acceptance": _hears_acceptance,
    "a provider forgets its references": _forgets_keys,
    "a target claims a memory that it has not": _claims_memory,
    "absence is believed at once": lambda: patch.object(
        providers, "LOOK_UP", replace(providers.LOOK_UP, delay_seconds=0.0)
    ),
    "silence is taken for absence": lambda: patch.object(
        providers, "silence", lambda _why: ABSENT
    ),
    "calls begin whatever the permit says": lambda: patch.object(
        CallPermits, "may_begin", lambda *_: True
    ),
    "a call is not noted before it begins": lambda: patch.object(
        MappedCallJournal, "begin", lambda *_: None
    ),
    "the living are taken for dead": lambda: patch.object(
        World, "presence", lambda *_: Presence.GONE
    ),
    "the last recipient of a job is left out": lambda: _statement(
        "load_members", "position BETWEEN :first_position AND :last_position",
        "position >= :first_position AND position < :last_position",
    ),
    "a job counts one sent message too few": lambda: _statement(
        "finish_job", "sent = :sent", "sent = max(:sent - 1, 0)"
    ),
    "an acceptance is not recorded": lambda: _statement(
        "close_accepted", "WHERE looked_up(o.id, item.id)", "WHERE 0 AND looked_up(o.id, item.id)"
    ),
}  # fmt: skip

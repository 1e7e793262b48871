"""The look-up asker: asks a provider about a window of doubts, and records the resulting verdicts.

It goes through the target's own gate, as calls do. A message that is found was sent. One that is
absent was not, but only once the provider's records must be up to date and no worker can still be
calling; the contract then decides whether the item is called again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from outrider.domain.evidence import Finding, LookedUp, LookUp, Match, concludes_at
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.submission import AttemptFacts, next_after_absence
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.kernel.delivery.local_doors import ComeBack
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.found_messages import LASTING, Asking, FoundMessages
from outrider.kernel.transactions import doubts
from outrider.kernel.transactions.doubt_checks import ClaimedDoubt
from outrider.kernel.transactions.doubts import Basis, DoubtVerdict

log = structlog.get_logger()

ACTOR = "doubt settler"
TOO_EARLY = "it is not there yet, which proves nothing so early"
CHANGED_SINCE = "it is not there, but the target was set up differently at the time of the call"


class Unsettled(NamedTuple):
    """Nothing was found; or the door was closed, and the provider was not asked."""

    doubt: ClaimedDoubt
    finding: Finding | None = None
    detail: str | None = None
    come_back_at: datetime | None = None
    is_silence: bool = False
    """The provider did not answer."""
    is_a_persons: bool = False
    """Nothing that the provider is likely to say settles it."""


class LookUpAsker:
    def __init__(
        self, foundation: Foundation, contract_cache: ContractCache, gate: TargetGate,
        messages: FoundMessages, living: LivingCallers, steady_seconds: Callable[[], float],
        unseen_seconds: Callable[[float], float], look_at_clock: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        """`steady_seconds`: for how long the clock has run evenly. Where it leapt, less time has
        passed since a doubt began than it says. `unseen_seconds`: by how much it may have leapt in
        such a span before this process began."""
        self._steady_seconds = steady_seconds
        self._unseen_seconds = unseen_seconds
        self._look_at_clock = look_at_clock
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._contract_cache = contract_cache
        self._gate = gate
        self._messages = messages
        self._living = living

    async def ask(self, asking: Asking, due: Sequence[ClaimedDoubt]) -> list[Unsettled]:
        """Ask about these and settle what the answers prove; returns the others."""
        contract, look_up = asking.contract, asking.look_up
        key = self._gate.door_key(asking.scope, contract.submission_target, contract.gateway_url)
        passes = await self._gate.ask(key, asking.gateway, len(due))
        if isinstance(passes, ComeBack):
            return [Unsettled(each, come_back_at=passes.at) for each in due]
        if passes.is_probe:
            # A look-up is no message, so it does not find out whether messages are taken.
            self._gate.unused(passes)
        soon = self._clock.now() + timedelta(seconds=self._limits.doubt_poll_seconds)
        unasked = [Unsettled(each, come_back_at=soon) for each in due[passes.granted :]]
        asked, asked_at = due[: passes.granted], self._clock.now()
        found = await self._messages.answers(asking.gateway, look_up.match, asked)
        if look_up.match is Match.CONTENT:
            found = await self._messages.attributed(asking, asked, found, asked_at)
        return unasked + await self._judged(asking, asked, found, asked_at)

    async def _judged(
        self, asking: Asking, asked: Sequence[ClaimedDoubt], found: Mapping[OutboxId, LookedUp],
        asked_at: datetime,
    ) -> list[Unsettled]:  # fmt: skip
        sent = [each for each in asked if found[each.id].finding is Finding.FOUND]
        absent = [each for each in asked if found[each.id].finding is Finding.ABSENT]
        left = [
            self._unknown(each, found[each.id], asking.look_up, asked_at)
            for each in asked
            if found[each.id].finding is Finding.UNKNOWN
        ]
        left += await self._arrived(asking, sent, found)
        if absent:
            # It may have been set since it was last read, and doubts recorded by what it says now.
            await self._look_at_clock()
        quiet_at = await self._living.quiet_at(asking.scope, [each.id for each in absent])
        proven, changed_at = [], asking.changed_at
        for each in absent:
            quiet = quiet_at.get(each.id, each.doubted_at)
            if quiet is None or not self._concludes(asking.look_up, each, quiet, asked_at):
                left.append(Unsettled(each, Finding.ABSENT, TOO_EARLY))
            elif changed_at is not None and each.created_at <= changed_at:
                left.append(Unsettled(each, Finding.UNKNOWN, CHANGED_SINCE, is_a_persons=True))
            else:
                proven.append(each)
        return left + await self._never_arrived(asking, proven)

    def _concludes(
        self, look_up: LookUp, doubt: ClaimedDoubt, quiet: datetime, asked_at: datetime
    ) -> bool:
        """Whether `absent` proves that it never arrived."""
        if self._steady_seconds() < look_up.delay_seconds:
            return False
        unseen = timedelta(seconds=self._unseen_seconds(look_up.delay_seconds))
        return asked_at >= concludes_at(look_up, max(quiet, doubt.doubted_at)) + unseen

    def _unknown(
        self, doubt: ClaimedDoubt, said: LookedUp, look_up: LookUp, asked_at: datetime
    ) -> Unsettled:
        come_back_at = None
        if said.retry_after_seconds is not None:
            come_back_at = self._clock.now() + timedelta(seconds=said.retry_after_seconds)
        is_over = said.detail in LASTING and asked_at >= concludes_at(look_up, doubt.doubted_at)
        return Unsettled(
            doubt, Finding.UNKNOWN, said.detail, come_back_at, said.is_silence, is_over
        )

    async def _arrived(
        self, asking: Asking, sent: Sequence[ClaimedDoubt], found: Mapping[OutboxId, LookedUp]
    ) -> list[Unsettled]:
        contract, look_up = asking.contract, asking.look_up
        messages = {
            each.id: found[each.id].provider_message_ids[0]
            for each in sent
            if found[each.id].provider_message_ids
        }
        basis = Basis(look_up.match.kind, contract.submission_target, messages=messages)
        details = {found[each.id].detail for each in sent}
        words = f"{contract.submission_target} has it: {'; '.join(sorted(details))}"
        return await self._settled(asking.scope, sent, DoubtVerdict.SENT, words, basis)

    async def _never_arrived(
        self, asking: Asking, proven: Sequence[ClaimedDoubt]
    ) -> list[Unsettled]:
        """What an abandoned call left behind is the same attempt, and is made again; after a
        silence the contract decides."""
        scope, called, look_up = asking.scope, asking.contract, asking.look_up
        again, failed = [], []
        next_attempts: dict[OutboxId, datetime] = {}
        for each in proven:
            due = None
            if not each.is_exhausted and not each.was_abandoned:
                due = await self._next_attempt_at(each)
            if each.is_exhausted or each.is_spent:
                failed.append(each)
            elif each.was_abandoned:
                again.append(each)
            elif due is not None:
                again.append(each)
                next_attempts[each.id] = due
            else:
                failed.append(each)
        basis = Basis(look_up.match.kind, called.submission_target, next_attempts=next_attempts)
        words = f"{called.submission_target} does not have it, and its records are complete by now"
        left = await self._settled(scope, again, DoubtVerdict.RESUBMIT, words, basis)
        return left + await self._settled(scope, failed, DoubtVerdict.FAILED, words, basis)

    async def _next_attempt_at(self, doubt: ClaimedDoubt) -> datetime | None:
        contract = await self._contract_cache.by_id(doubt.contract_id)
        now, number = self._clock.now(), max(1, doubt.attempts - doubt.attempts_before)
        schedule = self._gate.retry_schedule(contract)
        wait = schedule.delay_seconds(number, jitter=self._ids.jitter())
        facts = AttemptFacts(number, doubt.submitted_at, now)
        return next_after_absence(contract, facts, now + timedelta(seconds=wait))

    async def _settled(
        self, scope: Scope, settled: Sequence[ClaimedDoubt], verdict: DoubtVerdict, words: str,
        basis: Basis,
    ) -> list[Unsettled]:  # fmt: skip
        if not settled:
            return []
        basis = Basis(
            basis.kind, basis.source, {each.id: each.held for each in settled}, basis.messages,
            basis.next_attempts,
        )  # fmt: skip
        script = doubts.resolve(
            scope, [each.id for each in settled], verdict, words, ACTOR, self._ids,
            self._clock.now(), basis,
        )  # fmt: skip
        given = set(await self._store.write(script))
        log.info(
            "doubts_settled", submission_target=basis.source, verdict=verdict.value,
            kind=basis.kind.value, items=len(given),
        )  # fmt: skip
        why = "its evidence has settled another doubt"
        return [Unsettled(each, Finding.UNKNOWN, why) for each in settled if each.id not in given]

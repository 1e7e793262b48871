"""Found messages: decides which item a provider's message belongs to, if only its content says so.

A message belongs to one item. It is not assigned while another item with the same recipient may
have caused it, because that item's call is in progress or its own doubt can still be settled by
better evidence: assigned to the wrong item, it would hide that the right one was never sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.evidence import (
    Finding,
    LookedUp,
    LookUp,
    Match,
    TargetEvidence,
    concludes_at,
    silence,
    unknown,
)
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.submission import Contract
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.doubt_composer import DoubtComposer
from outrider.kernel.transactions import doubt_checks
from outrider.kernel.transactions.doubt_checks import ClaimedDoubt, RivalState
from outrider.ports.gateway import Gateway

ANOTHER_TEXT = "a message to this recipient at that time has another text"
RIVAL_CALLED = "it may be that of another item, which is being called"
RIVAL_DOUBTED = "it may be that of another item in doubt"
RIVAL_SETTLED = "it may be that of another item, which was settled as sent"
NO_ANSWER = "no answer"
NO_TEXT = "its text cannot be made again, so it cannot be compared"
LASTING = frozenset({ANOTHER_TEXT, RIVAL_SETTLED, NO_TEXT})
"""Reasons that no later answer is likely to remove."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom a window of doubts is put to."""

    scope: Scope
    contract: Contract
    gateway: Gateway
    evidence: TargetEvidence
    look_up: LookUp
    is_shared: bool = False
    """Other workspaces send from the same account."""
    changed_at: datetime | None = None
    """Until when calls may have been made to another account than the one that is asked now."""


class _Rivals(NamedTuple):
    busy: set[str]
    """Addresses that something is on its way to, or may be."""
    settled: set[str]
    """Addresses that something was sent to, and nobody knows as which message."""
    doubts: list[ClaimedDoubt]
    found: Mapping[OutboxId, LookedUp]


class FoundMessages:
    def __init__(
        self, foundation: Foundation, composer: DoubtComposer, living: LivingCallers
    ) -> None:
        self._store = foundation.store
        self._most = foundation.limits.doubt_window_items
        self._skew = timedelta(seconds=foundation.limits.look_up_skew_seconds)
        self._composer = composer
        self._living = living

    async def answers(
        self, gateway: Gateway, match: Match, doubts: Sequence[ClaimedDoubt]
    ) -> dict[OutboxId, LookedUp]:
        """What the provider says about each, before it is known whose the messages are."""
        questions = await self._composer.questions(doubts, match)
        said = await gateway.look_up(list(questions.values())) if questions else {}
        return {
            each.id: said.get(each.reference, silence(NO_ANSWER))
            if each.id in questions
            else unknown(NO_TEXT)
            for each in doubts
        }

    async def attributed(
        self, asking: Asking, asked: Sequence[ClaimedDoubt], found: Mapping[OutboxId, LookedUp],
        asked_at: datetime,
    ) -> dict[OutboxId, LookedUp]:  # fmt: skip
        """Items with the same content are interchangeable once nothing more can be learnt about any
        of them: the oldest then get the messages that were found."""
        rivals = await self._rivals(asking, asked, found)
        # Read after the rivals: what a rival's call was answered with since is in one or the other.
        ids = {each for said in found.values() for each in said.provider_message_ids}
        ids |= {each for said in found.values() for each in said.unclear_ids}
        known = await self._store.read(doubt_checks.known_messages(sorted(ids), asking.contract))
        everyone = sorted([*asked, *rivals.doubts], key=lambda each: (each.created_at, each.id))
        all_found = {**rivals.found, **found}
        free = {
            each.id: [one for one in all_found[each.id].provider_message_ids if one not in known]
            for each in everyone
        }
        answers: dict[OutboxId, LookedUp] = {}
        for doubt in asked:
            said, own = found[doubt.id], free[doubt.id]
            group = [each for each in everyone if each is doubt or set(own) & set(free[each.id])]
            if not own and any(each not in known for each in said.unclear_ids):
                said = unknown(ANOTHER_TEXT)
            elif not own and said.finding is Finding.FOUND:
                said = LookedUp(Finding.ABSENT)
            elif own and address_of(doubt) in rivals.settled:
                said = unknown(RIVAL_SETTLED)
            elif own and address_of(doubt) in rivals.busy:
                said = unknown(RIVAL_CALLED)
            elif own:
                said = await self._share(asking, doubt, group, free, said, asked_at)
            answers[doubt.id] = said
        return answers

    async def _share(
        self, asking: Asking, doubt: ClaimedDoubt, group: Sequence[ClaimedDoubt],
        free: Mapping[OutboxId, Sequence[str]], said: LookedUp, asked_at: datetime,
    ) -> LookedUp:  # fmt: skip
        own, place = free[doubt.id], group.index(doubt)
        if any(set(free[each.id]) != set(own) for each in group):
            return unknown(RIVAL_DOUBTED)
        if len(own) < len(group) and not await self._is_final(asking, group, asked_at):
            return unknown(RIVAL_DOUBTED)
        if place < len(own):
            return said._replace(provider_message_ids=(sorted(own)[place],))
        return LookedUp(Finding.ABSENT)

    async def _is_final(
        self, asking: Asking, group: Sequence[ClaimedDoubt], asked_at: datetime
    ) -> bool:
        """Whether nothing more can be learnt about any of them: no call can be in progress, the
        records are complete, and no receipt is expected."""
        if any(each.scope != asking.scope for each in group):
            return False
        quiet_at = await self._living.quiet_at(asking.scope, [each.id for each in group])
        receipts = asking.evidence.receipts
        wait = timedelta(seconds=0 if receipts is None else receipts.within_seconds)
        for each in group:
            quiet = quiet_at.get(each.id, each.doubted_at)
            if quiet is None or asked_at < each.doubted_at + wait:
                return False
            if asked_at < concludes_at(asking.look_up, max(quiet, each.doubted_at)):
                return False
        return True

    async def _rivals(
        self, asking: Asking, asked: Sequence[ClaimedDoubt], found: Mapping[OutboxId, LookedUp]
    ) -> _Rivals:
        """Other items to the same recipients whose message may be among those found."""
        matched = [each for each in asked if found[each.id].provider_message_ids]
        if not matched:
            return _Rivals(set(), set(), [], {})
        own = {each.id for each in asked}
        rows = await self._store.read(
            doubt_checks.rivals(
                {address_of(each) for each in matched}, matched[0].channel,
                asking.contract.submission_target, asking.scope, is_shared=asking.is_shared,
                since=min(each.created_at for each in matched) - self._skew,
            )
        )  # fmt: skip
        others = [each for each in rows if each.id not in own]
        busy = {each.address for each in others if each.state is RivalState.CALLED}
        settled = {each.address for each in others if each.state is RivalState.SETTLED}
        doubted = [each for each in others if each.state is RivalState.DOUBTED]
        busy |= {each.address for each in doubted[self._most :]}
        doubts = await self._store.read(
            doubt_checks.doubts_of([each.id for each in doubted[: self._most]])
        )
        said = await self.answers(asking.gateway, Match.CONTENT, doubts)
        # What could not be compared may be any of them.
        everyone = {**said, **found}
        busy |= {
            address_of(each)
            for each in [*asked, *doubts]
            if everyone[each.id].finding is Finding.UNKNOWN
        }
        read = {each.id for each in doubts}
        busy |= {each.address for each in doubted[: self._most] if each.id not in read}
        return _Rivals(busy, settled, doubts, said)


def address_of(doubt: ClaimedDoubt) -> str:
    return (doubt.address or "").lower()

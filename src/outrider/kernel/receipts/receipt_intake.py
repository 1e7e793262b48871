"""The receipt intake: stores a target's verified receipts durably before it returns.

Concurrent callbacks share a commit. Matching receipts to items is another role's work and happens
later. A target cannot have more unmatched receipts than its limit.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from outrider.domain.addresses import normalise_email, normalise_phone
from outrider.domain.errors import NotFound, Overloaded
from outrider.domain.ids import Scope
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.kernel.submissions.shared_commits import SharedCommits
from outrider.kernel.transactions import keys, receipts
from outrider.kernel.transactions.receipt_matching import ChannelOf
from outrider.kernel.transactions.receipts import TakenReceipt
from outrider.limits.receipts import (
    PROVIDER_MESSAGE_ID_MAX_CHARACTERS,
    REASON_MAX_CHARACTERS,
    RECEIPT_ID_MAX_CHARACTERS,
    REPLY_MAX_CHARACTERS,
    ReceiptLimits,
)

KeywordOf = Callable[[str], OptOutWord | None]
"""What a reply asks for, by its words."""


@dataclass(slots=True)
class _Sought:
    """How many unmatched receipts a target had when it was last counted."""

    count: int
    known_at: float


class ReceiptIntake:
    def __init__(
        self,
        foundation: Foundation,
        channel_of: ChannelOf,
        keyword_of: KeywordOf,
        sharers: TargetSharers,
        wake: Callable[[], None],
        limits: ReceiptLimits,
    ) -> None:
        self._store = foundation.store
        self._channel_of = channel_of
        self._keyword_of = keyword_of
        self._sharers = sharers
        self._wake = wake
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = limits
        self._scopes: dict[WorkspaceName, Scope] = {}
        self._sought: dict[tuple[Scope, str], _Sought] = {}
        self._shared = SharedCommits(
            self._commit,
            limits.shared_callbacks,
            at_once=limits.commits_at_once,
            company_items=limits.shared_company,
        )

    async def scope_of(self, workspace: WorkspaceName) -> Scope:
        """Raises NotFound if there is no such workspace. Names never change."""
        if workspace not in self._scopes:
            scope = await self._store.read(keys.find_workspace(workspace))
            if scope is None:
                raise NotFound(f"there is no workspace {workspace}")
            self._scopes[workspace] = scope
        return self._scopes[workspace]

    async def take(
        self, workspace: WorkspaceName, submission_target: str, given: Sequence[Receipt]
    ) -> list[Receipt]:
        """Those of them that were new, and are durable now. Overloaded: nothing was taken."""
        scope = await self.inbox_of(workspace, submission_target)
        return await self.take_in(scope, submission_target, given)

    async def inbox_of(self, workspace: WorkspaceName, submission_target: str) -> Scope:
        """Where what a workspace's URL receives is taken. NotFound: there is no such workspace."""
        await self.scope_of(workspace)
        return await self.scope_of(self._sharers.inbox_of(workspace, submission_target))

    async def take_in(
        self, scope: Scope, submission_target: str, given: Sequence[Receipt]
    ) -> list[Receipt]:
        if not given:
            return []
        await self._refuse_flood(scope, submission_target)
        channel = self._channel_of(submission_target)
        return await self._shared.put(
            scope, [self._taken(submission_target, channel, each) for each in given]
        )

    async def _commit(
        self, scope: Scope, callbacks: Sequence[Sequence[TakenReceipt]]
    ) -> list[list[Receipt]]:
        """The new receipts of each callback; of two equal ones, the first is the new one."""
        every = [each for callback in callbacks for each in callback]
        new = await self._store.write(receipts.take(scope, every, self._ids, self._clock.now()))
        if new:
            self._wake()
        fresh = {id(each) for each in new}
        return [[each.receipt for each in one if id(each) in fresh] for one in callbacks]

    async def _refuse_flood(self, scope: Scope, submission_target: str) -> None:
        """The database is asked only now and then, so a flood exceeds its limit by what arrives in
        between."""
        place, now = (scope, submission_target), self._clock.monotonic()
        known = self._sought.get(place)
        if known is None or now - known.known_at > self._limits.sought_trust_seconds:
            # Meanwhile, other requests use the previous count: only one of them asks.
            before = known.count if known is not None else 0
            known = self._sought[place] = _Sought(before, now)
            counted = receipts.count_sought(scope, submission_target, self._limits.sought_max)
            known.count = await self._store.read(counted)
        if known.count >= self._limits.sought_max:
            raise Overloaded(
                f"{known.count:,} receipts of '{submission_target}' have found no message so far",
                self._limits.sought_retry_after_seconds,
            )

    def _taken(self, target: str, channel: Channel | None, given: Receipt) -> TakenReceipt:
        if given.sender is None and given.text is None:
            receipt = given if _is_within_limits(given) else _bounded(given)
        else:
            receipt = replace(
                _bounded(given),
                sender=None if given.sender is None else _address(channel, given.sender),
                text=None if given.text is None else given.text[:REPLY_MAX_CHARACTERS],
            )
        return TakenReceipt(target, receipt, self._keyword(receipt))

    def _keyword(self, receipt: Receipt) -> OptOutWord | None:
        match receipt.event:
            case ReceiptEvent.OPTED_OUT:
                return OptOutWord.STOP
            case ReceiptEvent.OPTED_IN:
                return OptOutWord.START
            case ReceiptEvent.REPLIED if receipt.text:
                return self._keyword_of(receipt.text)
            case _:
                return None


def _is_within_limits(given: Receipt) -> bool:
    """True of nearly all receipts, which then need no copy."""
    reference, message_id, occurred_at = (
        given.reference,
        given.provider_message_id,
        given.occurred_at,
    )
    return (
        len(given.receipt_id) <= RECEIPT_ID_MAX_CHARACTERS
        and (reference is None or _found_by(reference) is not None)
        and (message_id is None or _found_by(message_id) is not None)
        and len(given.reason) <= REASON_MAX_CHARACTERS
        and (occurred_at is None or occurred_at.tzinfo is UTC)
    )


def _bounded(given: Receipt) -> Receipt:
    return replace(
        given,
        receipt_id=_bounded_id(given.receipt_id),
        reference=_found_by(given.reference),
        provider_message_id=_found_by(given.provider_message_id),
        reason=given.reason[:REASON_MAX_CHARACTERS],
        occurred_at=_in_utc(given.occurred_at),
    )


def _bounded_id(receipt_id: str) -> str:
    if len(receipt_id) <= RECEIPT_ID_MAX_CHARACTERS:
        return receipt_id
    return f"sha256:{hashlib.sha256(receipt_id.encode(errors='surrogatepass')).hexdigest()}"


def _found_by(text: str | None) -> str | None:
    """An id longer than any of ours or a provider's matches nothing."""
    return text if text and len(text) <= PROVIDER_MESSAGE_ID_MAX_CHARACTERS else None


def _address(channel: Channel | None, sender: str) -> str:
    """In the form used by the ledger and opt-outs, if that is known."""
    match channel:
        case Channel.EMAIL:
            return normalise_email(sender) or sender[:REASON_MAX_CHARACTERS]
        case Channel.SMS | Channel.WHATSAPP | Channel.VOICE:
            written = sender.removeprefix("whatsapp:")
            plus = f"+{written}" if written.isdigit() else written
            return normalise_phone(plus) or sender[:REASON_MAX_CHARACTERS]
        case _:
            return sender[:REASON_MAX_CHARACTERS]


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        # In UTC it would be before the first year, or after the last.
        return None

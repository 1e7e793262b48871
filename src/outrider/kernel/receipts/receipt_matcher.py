"""The receipt matcher: matches waiting receipts to items, and updates the items' deliveries.

A window is claimed, matched, folded and followed up in one transaction, so that a matcher that dies
has done all of it or nothing, and no receipt is with two of them. What finds no item waits.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import OutboxId, RunId, Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.kernel.streams.announcement_listener import woken_by
from outrider.kernel.transactions import plain_receipts, receipts
from outrider.kernel.transactions.receipt_answers import AnswerOf
from outrider.kernel.transactions.receipt_matching import (
    ChannelOf,
    MatchingScripts,
    WindowOutcome,
)
from outrider.kernel.transactions.receipt_sharing import Sharers
from outrider.kernel.transactions.receipts import MatchedItem
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Announced

log = structlog.get_logger()


class ReceiptMatcher:
    def __init__(
        self,
        foundation: Foundation,
        channel_of: ChannelOf,
        sharers: TargetSharers,
        receipt_limits: ReceiptLimits,
        on_worse: Callable[[frozenset[tuple[Scope, RunId]]], None] = lambda _: None,
        answer_of: AnswerOf = lambda *_: None,
        on_answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._scripts = MatchingScripts(
            channel_of, answer_of, foundation.clock, foundation.ids, receipt_limits
        )
        self._sharers = sharers
        self._receipt_limits = receipt_limits
        self._on_worse = on_worse
        self._on_answered = on_answered
        self._woken = asyncio.Event()
        self._rest_until = 0.0
        self._due_at: datetime | None = None
        self.is_sending: Callable[[], bool] = lambda: False
        """Whether messages are being sent in this process, which the matcher is not to slow down:
        then it takes its share of the time, and what may opt somebody out at once."""

    def wake(self) -> None:
        """Receipts were taken in this process, so there is no need to wait for the next look."""
        self._woken.set()

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        async with woken_by(self._store, Announced.RECEIPTS, self.wake, self._limits):
            while True:
                await self._look()

    async def _look(self) -> None:
        """Match what is due, or wait until there may be something."""
        self._woken.clear()
        try:
            rest = self._rest_until - self._clock.monotonic()
            if await self._is_any_due() and await self._matched_in_turn(only_urgent=rest > 0):
                return
        except StoreUnavailable as error:
            log.warning("matching_waits_for_store", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return
        seconds = self._seconds_to_wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(rest, seconds) if rest > 0 else seconds):
                await self._woken.wait()

    async def _matched_in_turn(self, *, only_urgent: bool) -> int:
        """How many were claimed. After each window that was not urgent, whoever sends has the time
        that is not the matcher's share."""
        began = self._clock.monotonic()
        is_shared = only_urgent or self.is_sending()
        windows = 1 if is_shared else self._receipt_limits.windows_at_once
        ended = await asyncio.gather(
            *(self.match_due(only_urgent=only_urgent) for _ in range(windows)),
            return_exceptions=True,
        )
        if is_shared and not only_urgent:
            now, share = self._clock.monotonic(), self._receipt_limits.beside_sending_share
            self._rest_until = now + (now - began) * (1 / share - 1)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure
        return sum(each.claimed for each in ended if isinstance(each, WindowOutcome))

    async def _is_any_due(self) -> bool:
        """Asked first, because a write would make others wait for nothing."""
        self._due_at = await self._store.read(receipts.next_due())
        return self._due_at is not None and self._due_at <= self._clock.now()

    def _seconds_to_wait(self) -> float:
        """Until the next receipt that waits, but no longer than until the next look."""
        limits = self._receipt_limits
        if self._due_at is None:
            return limits.poll_seconds
        seconds = (self._due_at - self._clock.now()).total_seconds()
        return min(limits.poll_seconds, seconds) if seconds > 0 else limits.retry_look_seconds

    async def match_due(self, *, only_urgent: bool = False) -> WindowOutcome:
        """One window of receipts that are due: first those that are plain, in a transaction of
        their own, and then what else there is among them and beside them."""
        sharers = await self._sharers.known()
        if only_urgent:
            return await self._matched(0, sharers)
        most, now = self._receipt_limits.window_items, self._clock.now()
        plain = await self._store.write(plain_receipts.match(most, sharers, now))
        if plain.worse_runs:
            self._on_worse(plain.worse_runs)
        rest = await self._matched(plain.others, sharers)
        return replace(
            rest,
            claimed=rest.claimed + plain.matched,
            matched=rest.matched + plain.matched,
            worse_runs=rest.worse_runs | plain.worse_runs,
        )

    async def _matched(self, most_others: int, sharers: Sharers) -> WindowOutcome:
        outcome = await self._store.write(self._scripts.window(most_others, sharers))
        self._notify(outcome)
        return outcome

    def _notify(self, outcome: WindowOutcome) -> None:
        if outcome.worse_runs:
            self._on_worse(outcome.worse_runs)
        if outcome.answered:
            self._on_answered()

    async def match_by_hand(
        self, scope: Scope, receipt_id: str, outbox_id: OutboxId, actor: str
    ) -> MatchedItem:
        """An operator says which item an unmatched receipt is about."""
        outcome, item = await self._store.write(
            self._scripts.by_hand(scope, receipt_id, outbox_id, actor)
        )
        self._notify(outcome)
        return item

"""The screener: selects, from a lane's due items, the workflow items that may go now.

The others are recorded in one transaction: deferred to a time with the cause, or ended with a
reason. Items that resolve a silence are never held back.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_never

import structlog

from outrider.domain.frequency import SendHistory
from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent
from outrider.domain.retry import Patience
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.sending_hours import Wait
from outrider.domain.states import Channel
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.screens import (
    Fail,
    FrequencyCapScreen,
    ReadableContent,
    Refusal,
    SendingHoursScreen,
    Skip,
    SupportedTemplate,
    Templates,
    first_refusal,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import screening
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.kernel.transactions.submissions import DueItem
from outrider.limits.workflows import UNKNOWN_ZONES_REMEMBERED

log = structlog.get_logger()

Refused = tuple[DueItem, Refusal]


class Screener:
    def __init__(
        self, foundation: Foundation, policy_keeper: PolicyKeeper, templates: Templates
    ) -> None:
        self._store = foundation.store
        self._policy_keeper = policy_keeper
        self._templates = templates
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._unknown_zones: set[str] = set()

    async def patience(self, lane: ClaimedLane) -> Patience:
        """How often a message of this workspace's workflows is tried, and with what delays."""
        return (await self._policy_keeper.lately(lane.scope)).retry.patience

    async def screen(
        self, lane: ClaimedLane, due: Sequence[DueItem]
    ) -> dict[OutboxId, MessageContent] | Hold:
        """The contents of those that may go now. A `Hold` says why nothing could be written."""
        policies = await self._policy_keeper.lately(lane.scope)
        contents, refused = await self._judged(lane, due, policies)
        if refused:
            held = await self.hold_back(lane, _by_ending(due, refused))
            if held is not Hold.OURS:
                return held
            for item, _ in refused:
                contents.pop(item.id, None)
        return contents

    async def hold_back(self, lane: ClaimedLane, held_back: HeldBack) -> Hold:
        for ending in held_back.failed:
            log.warning(
                "item_failed_fast", outbox_id=ending.id, reason=ending.reason, why=ending.error
            )
        now = self._clock.now()
        lease_expires_at = now + timedelta(seconds=self._limits.lease_seconds)
        held = await self._store.write(screening.hold_back(lane, held_back, lease_expires_at, now))
        counts = {name: len(group) for name, group in held_back._asdict().items()}
        log.info("items_held_back", job_id=lane.id, lane=held.value, **counts)
        return held

    async def _judged(
        self, lane: ClaimedLane, due: Sequence[DueItem], policies: ScreenPolicies
    ) -> tuple[dict[OutboxId, MessageContent], list[Refused]]:
        """All readable contents, and which items are refused and why: first by content and time of
        day; then, for the rest, by how much the address has been sent."""
        now = self._clock.now()
        readable = ReadableContent()
        by_nature = (
            SupportedTemplate(self._templates),
            readable,
            SendingHoursScreen(policies, readable.contents, now, self._note_unknown_zone),
        )
        refused: list[Refused] = []
        going: list[DueItem] = []
        for item in due:
            if item.maybe_received or item.is_open:
                readable(item)
                continue
            refusal = first_refusal(item, by_nature)
            if refusal is None:
                going.append(item)
            else:
                refused.append((item, refusal))
        capped = FrequencyCapScreen(policies, await self._send_history(lane, going, policies), now)
        refused += [(item, refusal) for item in going if (refusal := capped(item)) is not None]
        return readable.contents, refused

    async def _send_history(
        self, lane: ClaimedLane, going: Sequence[DueItem], policies: ScreenPolicies
    ) -> SendHistory:
        """One statement for all addresses, and only if there is a cap."""
        history = SendHistory()
        cap = policies.frequency_cap
        addresses = {
            (item.channel, item.address.lower())
            for item in going
            if item.address is not None and policies.cap(Channel(item.channel)) is not None
        }
        if cap is None or not addresses:
            return history
        since = self._clock.now() - cap.period
        for heard in await self._store.read(
            screening.heard(lane.scope, addresses, since, cap.messages)
        ):
            history.note(heard.channel, heard.address, heard.attempt_opened_at)
        return history

    def _note_unknown_zone(self, name: str) -> None:
        """Once per name: the same event may be sent with it a million times."""
        if name not in self._unknown_zones and len(self._unknown_zones) < UNKNOWN_ZONES_REMEMBERED:
            self._unknown_zones.add(name)
            log.warning("time_zone_unknown", time_zone=name)


def _by_ending(due: Sequence[DueItem], refused: Sequence[Refused]) -> HeldBack:
    held_back = HeldBack([], [], [])
    places = {item.id: place for place, item in enumerate(due)}
    # All writers use the same row order, so that they cannot deadlock.
    for item, refusal in sorted(refused, key=lambda pair: pair[0].id):
        match refusal:
            case Wait(until, waits_for):
                # Items deferred together go in the order in which they would have gone.
                until += timedelta(microseconds=places[item.id])
                deadline = item.deadline_from(until)
                held_back.deferred.append(Deferral(item.id, until, waits_for.value, deadline))
            case Skip(reason, detail):
                held_back.skipped.append(Ending(item.id, reason, detail))
            case Fail(reason, detail):
                held_back.failed.append(Ending(item.id, reason, detail))
            case other:
                assert_never(other)
    return held_back

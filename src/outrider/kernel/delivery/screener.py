"""The screener: selects, from a lane's due items, those that may go now.

A workflow's message needs content that can be sent from here, and every message waits for its
workspace's sending hours. The others are recorded in one transaction: deferred to a time with the
cause, or ended with a reason. Items that resolve a silence are never held back.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_never

import structlog

from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent
from outrider.domain.retry import Patience
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.sending_hours import PhoneZones, Wait
from outrider.domain.submission import WORKFLOW_ORIGIN
from outrider.kernel.delivery.hours_judge import HoursJudge
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.screens import (
    Fail,
    ReadableContent,
    Refusal,
    Screen,
    SendingHoursScreen,
    Skip,
    SupportedTemplate,
    Templates,
    first_refusal,
)
from outrider.kernel.delivery.unknown_zones import UnknownZones
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import screening
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.kernel.transactions.submissions import DueItem

log = structlog.get_logger()

Refused = tuple[DueItem, Refusal]


class Screener:
    def __init__(
        self,
        foundation: Foundation,
        policy_keeper: PolicyKeeper,
        phone_zones: PhoneZones,
        unknown_zones: UnknownZones,
        templates: Templates,
    ) -> None:
        self._store = foundation.store
        self._policy_keeper = policy_keeper
        self._phone_zones = phone_zones
        self._unknown_zones = unknown_zones
        self._templates = templates
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def policies(self, lane: ClaimedLane) -> ScreenPolicies:
        return await self._policy_keeper.lately(lane.scope)

    async def patience(self, lane: ClaimedLane) -> Patience:
        """How often a message of this workspace's workflows is tried, and with what delays."""
        return (await self.policies(lane)).retry.patience

    async def screen(
        self, lane: ClaimedLane, due: Sequence[DueItem]
    ) -> dict[OutboxId, MessageContent | None] | Hold:
        """Those that may go now, with the content of a workflow's messages. A `Hold` says why
        nothing could be written."""
        policies = await self.policies(lane)
        if not policies.has_hours and not any(item.origin == WORKFLOW_ORIGIN for item in due):
            return {item.id: None for item in due}
        readable = ReadableContent()
        hours = SendingHoursScreen(
            policies,
            HoursJudge(policies, self._phone_zones, self._unknown_zones.note),
            readable.contents,
            self._clock.now(),
        )
        of_workflows = (SupportedTemplate(self._templates), readable, hours)
        refused: list[Refused] = []
        for item in due:
            screens: Sequence[Screen] = of_workflows if item.origin == WORKFLOW_ORIGIN else (hours,)
            if item.maybe_received or item.is_open:
                screens = screens[1:-1]
            refusal = first_refusal(item, screens)
            if refusal is not None:
                refused.append((item, refusal))
        if refused:
            held = await self.hold_back(lane, _by_ending(due, refused))
            if held is not Hold.OURS:
                return held
        await self._record_exemptions(lane, hours)
        held_back = {item.id for item, _ in refused}
        return {item.id: readable.contents.get(item.id) for item in due if item.id not in held_back}

    async def _record_exemptions(self, lane: ClaimedLane, hours: SendingHoursScreen) -> None:
        """That messages were sent although others would have had to wait."""
        if not hours.exempted:
            return
        entries = [
            AuditEntry(
                lane.scope,
                "policy.exempted",
                "policy",
                job_id=lane.id,
                detail={"topic": topic, "wouldWait": {waits_for: items}},
            )
            for (topic, waits_for), items in sorted(hours.exempted.items())
        ]
        await self._store.write(record(entries, self._ids, self._clock.now()))

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

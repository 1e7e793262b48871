"""Member screens: which members of a campaign's job may be sent to now, by the workspace's policy.

Members are judged when they are loaded, so that nothing is rendered for those who wait, and again
when they are reserved, because a window may close in between. Those who wait keep no ledger row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from outrider.domain.frequency import reached
from outrider.domain.ids import OutboxId, RecipientId
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.screen_policies import FrequencyCap, WaitsFor, WhenReached
from outrider.domain.sending_hours import PhoneZones, Wait
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.warm_up import WarmUp, WarmUpPlan
from outrider.kernel.delivery.hours_judge import HoursJudge, Zones
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.unknown_zones import UnknownZones
from outrider.kernel.delivery.warm_up_keeper import WarmUpKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import campaigns
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.ledger import JobContext, Member
from outrider.kernel.transactions.reserving import Draft, Warming
from outrider.ports.clock import Clock

log = structlog.get_logger()


class _Attributes(msgspec.Struct):
    """What a policy reads of a recipient's attributes."""

    time_zone: object = msgspec.field(default=None, name="timeZone")


_attributes = msgspec.json.Decoder(_Attributes)


class Holds(NamedTuple):
    """How many members wait for what, and until when the first of them does."""

    waiting: Mapping[str, int]
    until: datetime


@dataclass(slots=True)
class MemberScreen:
    """The screen of one job while it is held by a worker."""

    judge: HoursJudge
    channel: Channel
    clock: Clock
    cap: FrequencyCap | None
    is_exempt: bool = False
    local_launch: LocalLaunch | None = None
    warm_up: WarmUp | None = None
    _zones: dict[RecipientId, Zones] = field(default_factory=dict)
    _held: dict[RecipientId, Wait] = field(default_factory=dict)
    _exempted: dict[RecipientId, WaitsFor] = field(default_factory=dict)
    _recorded: set[RecipientId] = field(default_factory=set)

    def passing_first(self, members: Sequence[Member]) -> list[Member]:
        """Of those who have no ledger row: nothing is prepared for them once the day's part of a
        warm-up plan is used up. Others may count in it already."""
        now, plan = self.clock.now(), self.warm_up
        used_up_until = None if plan is None else plan.used_up_until(now)
        if used_up_until is None:
            return self.passing(members)
        wait = Wait(used_up_until, WaitsFor.WARM_UP)
        self._held.update((member.recipient_id, wait) for member in members)
        return []

    def passing(self, members: Sequence[Member]) -> list[Member]:
        now = self.clock.now()
        for member in members:
            if member.recipient_id not in self._zones:
                default = self.local_launch.fallback_zone if self.local_launch else None
                zones = self.judge.zones(_own_zone(member.attributes), member.address, default)
                self._zones[member.recipient_id] = zones
        return [member for member in members if self._passes(member.recipient_id, now)]

    def still_passing(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Drafts that only record an outcome always pass."""
        now = self.clock.now()
        return [
            draft
            for draft in drafts
            if draft.status is not ItemStatus.QUEUED or self._passes(draft.recipient_id, now)
        ]

    def _passes(self, recipient_id: RecipientId, now: datetime) -> bool:
        if self.local_launch is not None:
            begins = self.local_launch.instant(self._zones[recipient_id])
            if now < begins:
                self._held[recipient_id] = Wait(begins, WaitsFor.LOCAL_TIME)
                return False
        found = self.judge.wait(self.channel, self._zones[recipient_id], now)
        if found is None:
            self._held.pop(recipient_id, None)
            return True
        if self.is_exempt:
            self._exempted[recipient_id] = found.waits_for
            return True
        self._held[recipient_id] = found
        return False

    def beyond_cap(
        self, drafts: Sequence[Draft], beyond: Mapping[OutboxId, datetime]
    ) -> list[Draft]:
        """Drafts without those beyond the cap: they wait, or are skipped where the cap says so."""
        assert self.cap is not None
        kept = []
        for draft in drafts:
            until = beyond.get(draft.id)
            if until is None:
                kept.append(draft)
            elif self.cap.when_reached is WhenReached.WAIT:
                self._held[draft.recipient_id] = Wait(until, WaitsFor.FREQUENCY_CAP)
            else:
                kept.append(
                    draft._replace(
                        status=ItemStatus.SKIPPED,
                        reason=WaitsFor.FREQUENCY_CAP.value,
                        error=reached(self.cap),
                    )
                )
        return kept

    def beyond_plan(self, plan: WarmUpPlan, drafts: Sequence[Draft]) -> None:
        """They wait for the next day of the plan."""
        self.hold(drafts, Wait(plan.next_day(self.clock.now()), WaitsFor.WARM_UP))

    def hold(self, held: Sequence[Draft | Member], wait: Wait) -> None:
        for each in held:
            self._held[each.recipient_id] = wait

    def take_exempted(self) -> Mapping[str, int]:
        """Members of an exempt message who would have had to wait; each is returned once."""
        new = self._exempted.keys() - self._recorded
        self._recorded |= new
        return Counter(self._exempted[recipient_id].value for recipient_id in new)

    @property
    def holds(self) -> Holds | None:
        if not self._held:
            return None
        waiting = Counter(each.waits_for.value for each in self._held.values())
        return Holds(waiting, min(each.until for each in self._held.values()))


class MemberScreens:
    def __init__(
        self,
        foundation: Foundation,
        policy_keeper: PolicyKeeper,
        phone_zones: PhoneZones,
        unknown_zones: UnknownZones,
        warm_ups: WarmUpKeeper,
        *,
        shapes_mail: bool,
    ) -> None:
        self._shapes_mail = shapes_mail
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._policy_keeper = policy_keeper
        self._phone_zones = phone_zones
        self._unknown_zones = unknown_zones
        self._warm_ups = warm_ups

    async def of(self, context: JobContext) -> MemberScreen | None:
        """None: neither a policy nor a warm-up plan applies to the message, and no target tells
        recipient domains apart."""
        message = context.asset.message
        policies = await self._policy_keeper.lately(context.job.scope)
        cap, local = policies.cap(message.channel), context.job.local_launch
        warm_up = self._warm_ups.of(message.submission_target)
        hours = policies.hours(message.channel)
        is_shaped = self._shapes_mail and message.channel is Channel.EMAIL
        if cap is None and local is None and warm_up is None and not (hours or is_shaped):
            return None
        judge = HoursJudge(policies, self._phone_zones, self._unknown_zones.note)
        return MemberScreen(
            judge,
            message.channel,
            self._clock,
            cap,
            policies.exempts(message.purpose),
            None if local is None else campaigns.read_local_launch(local),
            warm_up,
        )

    async def warming(
        self, context: JobContext, screen: MemberScreen, drafts: Sequence[Draft]
    ) -> Warming | None:
        """The warm-up plans that these drafts count in; None: there is none for any of them. A
        fallback follows no plan."""
        target = context.asset.message.submission_target
        if context.attempt_contract_id is not None or not self._warm_ups.is_warming(target):
            return None
        plans_of = await self._warm_ups.plans(target, {draft.address for draft in drafts})
        if plans_of is None:
            return None
        plans = {draft.id: plans_of(draft.address) for draft in drafts}
        first = next(each for found in plans.values() for each in found)
        return Warming(plans, partial(screen.beyond_plan, first.plan))

    async def record_exemptions(self, context: JobContext, screen: MemberScreen) -> None:
        """That messages are sent although others would have had to wait."""
        would_wait = screen.take_exempted()
        if not would_wait:
            return
        job, message = context.job, context.asset.message
        detail: dict[str, object] = {
            "topic": message.purpose.topic,
            "wouldWait": dict(would_wait),
        }
        entry = AuditEntry(
            job.scope, "policy.exempted", "policy", job.campaign_id, job.run_id, job.id,
            detail=detail,
        )  # fmt: skip
        await self._store.write(record([entry], self._ids, self._clock.now()))


def _own_zone(attributes: str) -> str | None:
    try:
        zone = _attributes.decode(attributes).time_zone
    except (msgspec.DecodeError, RecursionError):
        return None
    return zone if isinstance(zone, str) else None

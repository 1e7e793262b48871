"""The target gate: every window of calls asks here first, and each call reports its result here.

Door state is shared by all workers of a database, and read rarely for a healthy target without a
rate limit. A failure closes the door in this process at once, and in the others shortly after.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from cachetools import LRUCache

from outrider.domain.call_results import (
    POOL_TIMEOUT,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    NotBegun,
    Throttled,
    is_unreachable,
)
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkerId
from outrider.domain.own_limits import OWN_LIMIT
from outrider.domain.retry import RetrySchedule, usual_schedule
from outrider.domain.submission import Contract
from outrider.domain.targets import (
    Admission,
    Door,
    Report,
    TargetPolicy,
    admit,
    merged,
    report,
    throttle_reports,
)
from outrider.kernel.delivery.call_shares import CallShares
from outrider.kernel.delivery.call_slots import CallSlots
from outrider.kernel.delivery.door_writer import DoorWriter
from outrider.kernel.delivery.local_doors import ComeBack, LocalDoor, Passes
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.delivery import (
    FULL_LOOK_SECONDS,
    PAUSED_LOOK_SECONDS,
    REFUSED_MAX,
    REFUSED_SECONDS,
)
from outrider.ports.gateway import Gateway

log = structlog.get_logger()

OUR_OWN = frozenset({POOL_TIMEOUT, OWN_LIMIT})
"""Why a call could not begin, for reasons that say nothing about its target."""


class TargetGate:
    def __init__(
        self,
        foundation: Foundation,
        policies: Mapping[str, TargetPolicy],
        default: TargetPolicy,
        worker_id: WorkerId,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._writer = DoorWriter(foundation)
        self._limits = foundation.limits
        self._policies = policies
        self._default = default
        self._doors: dict[DoorKey, LocalDoor] = {}
        self._scopes: LRUCache[str, Scope] = LRUCache(foundation.limits.gate_scopes)
        """The workspace that owns the alert, by the workspace of a door."""
        self.shares = CallShares(foundation, self.policy, worker_id)

    def policy(self, submission_target: str) -> TargetPolicy:
        return self._policies.get(submission_target, self._default)

    def retry_schedule(
        self, contract: Contract, usual: RetrySchedule | None = None
    ) -> RetrySchedule:
        """The target's own schedule, or the default of its gateway type."""
        own = self.policy(contract.submission_target).retry or self._default.retry
        return own or usual or usual_schedule(contract.gateway_type, contract.acceptance_seconds)

    def door_key(self, scope: Scope, submission_target: str, gateway_url: str) -> DoorKey:
        self._scopes[str(scope.workspace_id)] = scope
        return DoorKey(submission_target, gateway_url, str(scope.workspace_id))

    def scope_of(self, key: DoorKey) -> Scope:
        """The workspace that asked for this door."""
        return self._scopes.get(key.workspace_id, DEFAULT_SCOPE)

    def slots(self, key: DoorKey, gateway: Gateway) -> CallSlots:
        """How many calls this process may have in flight there."""
        return self.shares.slots(key.shared, gateway)

    def closed_until(self, submission_target: str) -> datetime | None:
        """Until when this process knows the target to be closed: its earliest door opens then."""
        if self.policy(submission_target).fallback_when_down:
            return None
        now = self._clock.now()
        found = [
            door.closed_until
            for key, door in self._doors.items()
            if key.submission_target == submission_target and not key.workspace_id
        ]
        if not found or any(each is None or each <= now for each in found):
            return None
        return min(each for each in found if each is not None)

    def closed(self) -> dict[str, datetime]:
        """Targets with no open route at all for now, and until when."""
        now = self._clock.now()
        found: dict[str, datetime] = {}
        for key, door in self._doors.items():
            target = key.submission_target
            if not key.workspace_id and self.policy(target).fallback is None:
                until = self.closed_until(target)
                if door.closed_until is not None and until is not None and until > now:
                    found[target] = until
        return found

    def is_down(self, key: DoorKey) -> bool:
        """As far as is known here; not when the next probe is due, which has to be a real call."""
        now = self._clock.now()
        return self.door(key.shared).is_down_at(now) or self.door(key).is_down_at(now)

    async def ask(self, key: DoorKey, gateway: Gateway, want: int) -> Passes | ComeBack:
        policy, now = self.policy(key.submission_target), self._clock.now()
        shared, own = self.door(key.shared), self.door(key)
        await self._publish(key, key.shared, shared)
        await self._publish(key, key, own)
        is_known = shared.is_trusted(now) and own.is_trusted(now)
        if policy.rate_per_second is None and is_known and self.shares.is_known(key.shared, now):
            return Passes(want, shared, own, shared.epoch, own.epoch)
        state = await self._store.read(targets.target_state(key))
        if state.is_paused:
            shared.trusted_until = None
            shared.closed_until = now + timedelta(seconds=PAUSED_LOOK_SECONDS)
            return ComeBack(shared.closed_until)
        shared.learn(state.shared, now, self._limits.gate_trust_seconds)
        own.learn(state.own, now, self._limits.gate_trust_seconds)
        if await self.shares.is_full(key.shared, gateway, state, now):
            shared.closed_until = now + timedelta(seconds=FULL_LOOK_SECONDS)
            return ComeBack(shared.closed_until)
        if policy.rate_per_second is None and shared.is_trusted(now) and own.is_trusted(now):
            return Passes(want, shared, own, shared.epoch, own.epoch)
        return await self._admitted(key, policy, want, now)

    def note(self, key: DoorKey, passes: Passes, result: CallResult) -> None:
        """Record how a call ended. A failure closes the door here at once."""
        shared, own = passes.shared, passes.own
        at_ease = shared.is_untroubled and own.is_untroubled
        if at_ease and isinstance(result, Accepted) and not (shared.failures or own.failures):
            # The most frequent result by far.
            shared.answered_at = self._clock.monotonic()
            return
        if isinstance(result, NotBegun):
            if passes.is_probe:
                self.unused(passes)
            return
        if isinstance(result, Throttled):
            if result.closes is not Closes.THE_ITEM:
                self._throttled(key, passes, result)
            elif passes.is_probe:
                # A verdict on one message says nothing about the others: the next one may try.
                self.unused(passes)
            return
        if isinstance(result, Held):
            self._held(passes, result)
            return
        if isinstance(result, AttemptError) and result.code in OUR_OWN:
            if passes.is_probe:
                self.unused(passes)
            return
        if is_unreachable(result):
            self._unreachable(key, shared, passes, _words(result))
            return
        self._reached(passes)
        if isinstance(result, AttemptError):
            self._failed(key, own, passes.own_epoch, _words(result))
        elif own.failures or not own.is_untroubled or passes.is_probe:
            own.failures = 0
            own.unreported.append(Report(passes.own_epoch, answered=1))

    def _reached(self, passes: Passes) -> None:
        """It answered, whatever it said; a refusal may be specific to this workspace."""
        shared = passes.shared
        shared.answered_at = self._clock.monotonic()
        if shared.failures or not shared.is_untroubled or passes.is_probe:
            shared.failures = 0
            shared.unreported.append(Report(passes.shared_epoch, answered=1))

    def unused(self, passes: Passes) -> None:
        """A probe that was not used for a call: the next caller may probe at once."""
        passes.shared.unreported.append(Report(passes.shared_epoch, unused=1))
        passes.own.unreported.append(Report(passes.own_epoch, unused=1))

    async def publish(self, key: DoorKey) -> None:
        """Publish this door's unreported changes to the other workers."""
        await self._publish(key, key.shared, self.door(key.shared))
        await self._publish(key, key, self.door(key))

    def door(self, key: DoorKey) -> LocalDoor:
        """What this process knows of it."""
        if key not in self._doors:
            self._doors[key] = LocalDoor()
        return self._doors[key]

    def _held(self, passes: Passes, result: Held) -> None:
        words = f"{result.reason}: {result.detail}" if result.detail else result.reason
        door, epoch = passes.shared, passes.shared_epoch
        if result.closes is not Closes.THE_DOOR:
            # The messages or the credentials may be to blame, and they belong to this workspace.
            door, epoch = passes.own, passes.own_epoch
            passes.shared.unreported.append(Report(passes.shared_epoch, answered=1))
        elif passes.is_probe:
            passes.own.unreported.append(Report(passes.own_epoch, unused=1))
        door.unreported.append(Report(epoch, held=1, reason=words))
        if door.epoch == epoch:
            door.shut()

    def _throttled(self, key: DoorKey, passes: Passes, result: Throttled) -> None:
        in_flight = self.shares.in_flight(key.shared)
        for_all, for_us = throttle_reports(
            passes.shared_epoch, passes.own_epoch, result.retry_after_seconds, in_flight,
            result.detail or None, again=passes.is_probe,
        )  # fmt: skip
        if result.closes is Closes.THE_WORKSPACE or passes.is_own_probe:
            self._reached(passes)
        else:
            passes.shared.unreported.append(for_all)
            if passes.shared.epoch == passes.shared_epoch:
                passes.shared.shut()
        passes.own.unreported.append(for_us)
        if passes.own.epoch == passes.own_epoch:
            passes.own.shut()

    def _unreachable(self, key: DoorKey, shared: LocalDoor, passes: Passes, words: str) -> None:
        """If other connections have just succeeded, a refused one means too many at once."""
        lately = self._clock.monotonic() - shared.answered_at < REFUSED_SECONDS
        shared.refused = shared.refused + 1 if lately else 0
        if shared.refused >= REFUSED_MAX:
            shared.refused = 0
            self._throttled(key, passes, Throttled(words))
        else:
            self._failed(key, shared, passes.shared_epoch, words)

    def _failed(self, key: DoorKey, door: LocalDoor, epoch: int, words: str) -> None:
        door.failures += 1
        door.unreported.append(Report(epoch, failures=1, reason=words))
        most = self.policy(key.submission_target).breaker_failures
        if door.epoch == epoch and door.failures >= most:
            door.shut()

    async def _publish(self, asked: DoorKey, key: DoorKey, local: LocalDoor) -> None:
        if not local.unreported:
            return
        reported, local.unreported = local.unreported, []
        policy, now = self.policy(key.submission_target), self._clock.now()

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            after = door
            for seen in merged(reported):
                after = report(after, policy, seen, now)
            return after, (door, after)

        try:
            before, after = await self._writer.change(
                self.scope_of(asked), key, policy, change, now
            )
        except StoreUnavailable:
            # The others learn of it when the store is back.
            local.unreported = reported + local.unreported
            raise
        local.epoch = after.epoch
        local.learn(after, now, self._limits.gate_trust_seconds)
        self._writer.log_change(key, before, after)

    async def _admitted(
        self, key: DoorKey, policy: TargetPolicy, want: int, now: datetime
    ) -> Passes | ComeBack:
        """Both doors admit it, or it comes back when the later of them opens."""

        def change(door: Door) -> tuple[Door, Admission]:
            admission = admit(door, policy, want, now)
            return admission.door, admission

        rateless = replace(policy, rate_per_second=None)

        def change_own(door: Door) -> tuple[Door, Admission]:
            admission = admit(door, rateless, want, now)
            return admission.door, admission

        own = await self._store.write(targets.change_door(key, policy, change_own, now))
        if own.wait_until is not None:
            self.door(key).learn(own.door, now, self._limits.gate_trust_seconds)
            return ComeBack(own.wait_until)
        shared = await self._store.write(targets.change_door(key.shared, policy, change, now))
        self.door(key.shared).learn(shared.door, now, self._limits.gate_trust_seconds)
        self.door(key).learn(own.door, now, self._limits.gate_trust_seconds)
        if shared.wait_until is not None:
            if own.is_probe:
                self.door(key).unreported.append(Report(own.door.epoch, unused=1))
            return ComeBack(shared.wait_until)
        return Passes(
            min(own.granted, shared.granted), self.door(key.shared), self.door(key),
            shared.door.epoch, own.door.epoch, is_probe=own.is_probe or shared.is_probe,
            is_own_probe=own.is_probe and not shared.is_probe,
        )  # fmt: skip


def _words(result: CallResult) -> str:
    if not isinstance(result, AttemptError):
        return ""
    return f"{result.code}: {result.detail}" if result.detail else result.code

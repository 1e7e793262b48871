"""The target gate: every window of calls asks here first, and each call tells here how it ended.

The state of a door is shared by all workers of a database. A target without a rate and without
trouble is looked at only now and then, so the gate costs a healthy target next to nothing; and what
this process sees of trouble closes the door here at once, and for the others a moment later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog
from cachetools import LRUCache

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkerId
from outrider.domain.own_limits import OWN_LIMIT
from outrider.domain.retry import RetrySchedule, usual_schedule
from outrider.domain.submission import (
    POOL_TIMEOUT,
    SETUP_WRONG,
    TARGET_SETUP,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Contract,
    Held,
    NotBegun,
    Throttled,
    is_unreachable,
)
from outrider.domain.targets import (
    Admission,
    Door,
    DoorState,
    Report,
    TargetPolicy,
    admit,
    hold,
    merged,
    report,
    reset,
    throttle_reports,
)
from outrider.kernel.delivery.call_slots import CallSlots
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
    raise_alert,
    resolve_alert,
    resolve_in_workspace,
)
from outrider.kernel.transactions.targets import DoorKey, TargetState
from outrider.ports.gateway import Gateway
from outrider.ports.store import Transaction

log = structlog.get_logger()

OUR_OWN = frozenset({POOL_TIMEOUT, OWN_LIMIT})
"""Why a call could not begin that is no news of its target."""
PAUSED_LOOK_SECONDS = 1.0
FULL_LOOK_SECONDS = 0.5
REFUSED_SECONDS = 1.0
REFUSED_MAX = 5


@dataclass
class LocalDoor:
    """What this process knows of a door, and what it has yet to tell the others of it."""

    epoch: int = 0
    trusted_until: datetime | None = None
    is_untroubled: bool = False
    closed_until: datetime | None = None
    failures: int = 0
    answered_at: float = float("-inf")
    refused: int = 0
    """Connections refused since `answered_at`, while others went through."""
    untold: list[Report] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Passes:
    """Leave to begin `granted` calls, for as long as neither door has closed since."""

    granted: int
    shared: LocalDoor
    own: LocalDoor
    shared_epoch: int
    own_epoch: int
    is_probe: bool = False
    is_own_probe: bool = False
    """It tries the door of its workspace alone: the others go through."""

    @property
    def stand(self) -> bool:
        """Whether neither door has closed since; asked at the last moment before a call."""
        return self.shared.epoch == self.shared_epoch and self.own.epoch == self.own_epoch


@dataclass(frozen=True, slots=True)
class ComeBack:
    """No call may begin before then."""

    at: datetime


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
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._policies = policies
        self._default = default
        self._worker_id = worker_id
        self._doors: dict[DoorKey, LocalDoor] = {}
        self._scopes: LRUCache[str, Scope] = LRUCache(foundation.limits.gate_scopes)
        """Whose alert it is, by the workspace of a door."""
        self._slots: dict[DoorKey, CallSlots] = {}
        self._shares: dict[DoorKey, datetime] = {}

    def policy(self, submission_target: str) -> TargetPolicy:
        return self._policies.get(submission_target, self._default)

    def retry_schedule(
        self, contract: Contract, usual: RetrySchedule | None = None
    ) -> RetrySchedule:
        """A target's own, or what is usual: for its gateway type, unless it is said."""
        own = self.policy(contract.submission_target).retry or self._default.retry
        return own or usual or usual_schedule(contract.gateway_type, contract.acceptance_seconds)

    def door_key(self, scope: Scope, submission_target: str, gateway_url: str) -> DoorKey:
        self._scopes[str(scope.workspace_id)] = scope
        return DoorKey(submission_target, gateway_url, str(scope.workspace_id))

    def slots(self, key: DoorKey, gateway: Gateway) -> CallSlots:
        """How many calls this process may have out there."""
        shared = key.shared
        if shared not in self._slots:
            self._slots[shared] = CallSlots(gateway.concurrency)
        return self._slots[shared]

    def closed_until(self, submission_target: str) -> datetime | None:
        """Until when this process knows all doors of the target to be closed."""
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
        """Targets that nothing can go through for now, not even by another route, until when."""
        now = self._clock.now()
        found: dict[str, datetime] = {}
        for key, door in self._doors.items():
            target = key.submission_target
            if not key.workspace_id and self.policy(target).fallback is None:
                until = self.closed_until(target)
                if door.closed_until is not None and until is not None and until > now:
                    found[target] = until
        return found

    async def ask(self, key: DoorKey, gateway: Gateway, want: int) -> Passes | ComeBack:
        policy, now = self.policy(key.submission_target), self._clock.now()
        shared, own = self._door(key.shared), self._door(key)
        await self._tell(key, key.shared, shared)
        await self._tell(key, key, own)
        if policy.rate_per_second is None and self._is_trusted(shared, own, now):
            return Passes(want, shared, own, shared.epoch, own.epoch)
        standing = await self._store.read(targets.standing(key))
        if standing.is_paused:
            shared.trusted_until = None
            shared.closed_until = now + timedelta(seconds=PAUSED_LOOK_SECONDS)
            return ComeBack(shared.closed_until)
        self._learn(shared, standing.shared, now)
        self._learn(own, standing.own, now)
        if await self._is_full(key.shared, gateway, standing, now):
            shared.closed_until = now + timedelta(seconds=FULL_LOOK_SECONDS)
            return ComeBack(shared.closed_until)
        if policy.rate_per_second is None and self._is_trusted(shared, own, now):
            return Passes(want, shared, own, shared.epoch, own.epoch)
        return await self._admitted(key, policy, want, now)

    def note(self, key: DoorKey, passes: Passes, result: CallResult) -> None:
        """How a call ended. What is trouble closes the door here at once."""
        shared, own = passes.shared, passes.own
        at_ease = shared.is_untroubled and own.is_untroubled
        if at_ease and isinstance(result, Accepted) and not (shared.failures or own.failures):
            # Of all ends this is the one that comes a million times.
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
                # What it says of one message says nothing of the others: the next one may try.
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
            own.untold.append(Report(passes.own_epoch, answered=1))

    def _reached(self, passes: Passes) -> None:
        """It answered, whatever it said; what it said may be this workspace's own doing."""
        shared = passes.shared
        shared.answered_at = self._clock.monotonic()
        if shared.failures or not shared.is_untroubled or passes.is_probe:
            shared.failures = 0
            shared.untold.append(Report(passes.shared_epoch, answered=1))

    def unused(self, passes: Passes) -> None:
        """A probe that was no call: the next one who asks may try at once."""
        passes.shared.untold.append(Report(passes.shared_epoch, unused=1))
        passes.own.untold.append(Report(passes.own_epoch, unused=1))

    async def tell(self, key: DoorKey) -> None:
        """Tell the other workers what they have yet to hear of this door."""
        await self._tell(key, key.shared, self._door(key.shared))
        await self._tell(key, key, self._door(key))

    def _door(self, key: DoorKey) -> LocalDoor:
        if key not in self._doors:
            self._doors[key] = LocalDoor()
        return self._doors[key]

    def _is_trusted(self, shared: LocalDoor, own: LocalDoor, now: datetime) -> bool:
        return all(
            door.is_untroubled and door.trusted_until is not None and now < door.trusted_until
            for door in (shared, own)
        )

    def _learn(self, local: LocalDoor, door: Door | None, now: datetime) -> None:
        local.trusted_until = now + timedelta(seconds=self._limits.gate_trust_seconds)
        if door is None:
            local.is_untroubled, local.closed_until = True, None
            return
        local.is_untroubled = door.is_untroubled
        local.epoch = max(local.epoch, door.epoch)
        local.closed_until = None if door.is_open else door.opens_at

    def _held(self, passes: Passes, result: Held) -> None:
        words = f"{result.reason}: {result.detail}" if result.detail else result.reason
        door, epoch = passes.shared, passes.shared_epoch
        if result.closes is not Closes.THE_DOOR:
            # The messages may be to blame, or the credentials, and they are this workspace's.
            door, epoch = passes.own, passes.own_epoch
            passes.shared.untold.append(Report(passes.shared_epoch, answered=1))
        elif passes.is_probe:
            passes.own.untold.append(Report(passes.own_epoch, unused=1))
        door.untold.append(Report(epoch, held=1, reason=words))
        if door.epoch == epoch:
            self._shut(door)

    async def hold(self, key: DoorKey, problem: str, door_key: DoorKey | None = None) -> datetime:
        """Close the door because calls cannot even be made; returns when to look again.

        It is everybody's, unless another is named; then only the default workspace, whose set-up
        that is, is told what is wrong with it.
        """
        policy, now = self.policy(key.submission_target), self._clock.now()
        closing = door_key or key.shared
        local = self._door(closing)
        if local.closed_until is not None and now < local.closed_until:
            return local.closed_until
        words = f"{TARGET_SETUP}: {problem}"
        reason = words if closing.workspace_id else SETUP_WRONG

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            if door.opens_at is not None and now < door.opens_at:
                return door, (door, door)
            after = hold(door, policy, reason, now)
            return after, (door, after)

        before, after = await self._changed(key, closing, policy, change, now, words)
        self._shut(local)
        self._learn(local, after, now)
        assert after.opens_at is not None
        self._say(closing, before, replace(after, reason=words))
        return after.opens_at

    async def held_for(self, why: str) -> set[DoorKey]:
        """The doors that are closed for this reason."""
        doors = await self._store.read(targets.all_doors(self._limits.page_items))
        return {
            key
            for key, door in doors.items()
            if not door.is_open and (door.reason or "").startswith(why)
        }

    async def open_again(self, key: DoorKey, why_held: str) -> None:
        """Open the door if it was held for this only."""
        policy, now = self.policy(key.submission_target), self._clock.now()

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            mended = not door.is_open and (door.reason or "").startswith(why_held)
            after = reset(door, now) if mended else door
            return after, (door, after)

        before, after = await self._changed(key, key.shared, policy, change, now)
        self._learn(self._door(key.shared), after, now)
        self._say(key.shared, before, after)

    def _throttled(self, key: DoorKey, passes: Passes, result: Throttled) -> None:
        slots = self._slots.get(key.shared)
        in_flight = slots.in_use if slots is not None else 1
        for_all, for_us = throttle_reports(
            passes.shared_epoch, passes.own_epoch, result.retry_after_seconds, in_flight,
            result.detail or None, again=passes.is_probe,
        )  # fmt: skip
        if result.closes is Closes.THE_WORKSPACE or passes.is_own_probe:
            self._reached(passes)
        else:
            passes.shared.untold.append(for_all)
            if passes.shared.epoch == passes.shared_epoch:
                self._shut(passes.shared)
        passes.own.untold.append(for_us)
        if passes.own.epoch == passes.own_epoch:
            self._shut(passes.own)

    def _unreachable(self, key: DoorKey, shared: LocalDoor, passes: Passes, words: str) -> None:
        """Where others have just got through, refused connections mean: too many at once."""
        lately = self._clock.monotonic() - shared.answered_at < REFUSED_SECONDS
        shared.refused = shared.refused + 1 if lately else 0
        if shared.refused >= REFUSED_MAX:
            shared.refused = 0
            self._throttled(key, passes, Throttled(words))
        else:
            self._failed(key, shared, passes.shared_epoch, words)

    def _failed(self, key: DoorKey, door: LocalDoor, epoch: int, words: str) -> None:
        door.failures += 1
        door.untold.append(Report(epoch, failures=1, reason=words))
        most = self.policy(key.submission_target).breaker_failures
        if door.epoch == epoch and door.failures >= most:
            self._shut(door)

    def _shut(self, door: LocalDoor) -> None:
        """Nobody here begins a call that was admitted before; when it opens, the store says."""
        door.epoch += 1
        door.is_untroubled = False
        door.failures = 0
        door.trusted_until = None

    async def _tell(self, asked: DoorKey, key: DoorKey, local: LocalDoor) -> None:
        if not local.untold:
            return
        told, local.untold = local.untold, []
        policy, now = self.policy(key.submission_target), self._clock.now()

        def change(door: Door) -> tuple[Door, tuple[Door, Door]]:
            after = door
            for seen in merged(told):
                after = report(after, policy, seen, now)
            return after, (door, after)

        try:
            before, after = await self._changed(asked, key, policy, change, now)
        except StoreUnavailable:
            # The others are told when it is back.
            local.untold = told + local.untold
            raise
        local.epoch = after.epoch
        self._learn(local, after, now)
        self._say(key, before, after)

    async def _changed(
        self,
        asked: DoorKey,
        key: DoorKey,
        policy: TargetPolicy,
        change: targets.Change[tuple[Door, Door]],
        now: datetime,
        owner_told: str | None = None,
    ) -> tuple[Door, Door]:
        """Change a door, and raise or resolve its alert with it, for the workspace that asked."""

        def script() -> Transaction[tuple[Door, Door]]:
            before, after = yield from targets.change_door(key, policy, change, now)
            target = key.submission_target
            scope = self._scopes.get(asked.workspace_id, DEFAULT_SCOPE)
            if not before.is_open and after.is_open:
                if key.workspace_id:
                    yield from resolve_in_workspace(AlertCode.TARGET_HELD, target, scope, now)
                else:
                    yield from resolve_alert(AlertCode.TARGET_HELD, target, now)
            elif after != before and self._is_alarming(after, now):
                detail = {"submissionTarget": target, "state": after.state.value}
                told = owner_told if scope == DEFAULT_SCOPE else None
                reason = told or after.reason
                alert = Alert(
                    scope, AlertCode.TARGET_HELD, target, _alarm(target, reason),
                    {**detail, "reason": reason},
                )  # fmt: skip
                yield from raise_alert(alert, self._ids, now)
            return before, after

        return await self._store.write(script())

    def _is_alarming(self, door: Door, now: datetime) -> bool:
        """Being told to come back later is every day's business, for a while."""
        if door.is_open or door.since is None or door.probe_until is not None:
            return False
        lasted = (now - door.since).total_seconds()
        return door.state is DoorState.DOWN or lasted >= self._limits.door_alert_seconds

    def _say(self, key: DoorKey, before: Door, after: Door) -> None:
        if before.state != after.state:
            log.warning(
                "target_door_" + after.state.value, submission_target=key.submission_target,
                gateway_url=key.gateway_url, workspace_id=key.workspace_id or None,
                reason=after.reason, opens_at=after.opens_at,
            )  # fmt: skip

    async def _is_full(
        self, shared: DoorKey, gateway: Gateway, standing: TargetState, now: datetime
    ) -> bool:
        """Where the door takes fewer calls at once than all workers want: whether our part is 0."""
        slots = self.slots(shared, gateway)
        if standing.shared is None or standing.shared.slots is None:
            if slots.capacity != gateway.concurrency:
                slots.resize(gateway.concurrency)
            return False
        if now >= self._shares.get(shared, now):
            lasts = timedelta(seconds=self._limits.share_seconds)
            part = await self._store.write(
                targets.renew_share(
                    shared, self.policy(shared.submission_target), self._worker_id,
                    gateway.concurrency, 3 * lasts, now,
                )
            )  # fmt: skip
            self._shares[shared] = now + lasts
            slots.resize(gateway.concurrency if part is None else part)
            await gateway.trim(slots.capacity)
        return slots.capacity == 0

    async def _admitted(
        self, key: DoorKey, policy: TargetPolicy, want: int, now: datetime
    ) -> Passes | ComeBack:
        """Both doors let it through, or it comes back when the later of them opens."""

        def change(door: Door) -> tuple[Door, Admission]:
            admission = admit(door, policy, want, now)
            return admission.door, admission

        rateless = replace(policy, rate_per_second=None)

        def change_own(door: Door) -> tuple[Door, Admission]:
            admission = admit(door, rateless, want, now)
            return admission.door, admission

        own = await self._store.write(targets.change_door(key, policy, change_own, now))
        if own.wait_until is not None:
            self._learn(self._door(key), own.door, now)
            return ComeBack(own.wait_until)
        shared = await self._store.write(targets.change_door(key.shared, policy, change, now))
        self._learn(self._door(key.shared), shared.door, now)
        self._learn(self._door(key), own.door, now)
        if shared.wait_until is not None:
            if own.is_probe:
                self._door(key).untold.append(Report(own.door.epoch, unused=1))
            return ComeBack(shared.wait_until)
        return Passes(
            min(own.granted, shared.granted), self._door(key.shared), self._door(key),
            shared.door.epoch, own.door.epoch, is_probe=own.is_probe or shared.is_probe,
            is_own_probe=own.is_probe and not shared.is_probe,
        )  # fmt: skip


def _words(result: CallResult) -> str:
    if not isinstance(result, AttemptError):
        return ""
    return f"{result.code}: {result.detail}" if result.detail else result.code


def _alarm(target: str, reason: str | None) -> str:
    why = reason or "it says to come back later"
    return (
        f"The target '{target}' takes no messages: {why}. What is for it waits and uses up no"
        " attempt; it is tried again by itself."
    )

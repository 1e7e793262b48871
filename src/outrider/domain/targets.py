"""A target's door at one URL: token bucket, throttle, breaker and slots, as pure state.

`admit` says how many calls may begin now, or when to ask again; `report` records how calls ended. A
closed door admits one probe at intervals; an answered probe opens it. None of this costs an item an
attempt: what is not admitted waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from outrider.domain.domain_limits import DomainShaping
from outrider.domain.retry import RetrySchedule
from outrider.domain.warm_up import WarmUpPlan

THROTTLE_FIRST_SECONDS = 0.1
THROTTLE_MOST_SECONDS = 60.0
"""How long one `Retry-After` closes the door that all workspaces share. The throttled workspace
waits the full time; the others probe, one call at a time."""
PROBE_LOOK_SECONDS = 0.25
"""How often waiting callers check whether another caller's probe has ended."""
SLOTS_GROW_SECONDS = 1.0


class DoorState(StrEnum):
    """Throttled: the provider said to come back later. Down: it is unreachable, gives no usable
    answer, or is held because it refuses us or our set-up; `reason` says which."""

    OPEN = "open"
    THROTTLED = "throttled"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """How a target is executed: our settings, never terms of its contract."""

    rate_per_second: float | None = None
    burst: int = 1
    breaker_failures: int = 20
    breaker_seconds: float = 15.0
    retry: RetrySchedule | None = None
    """None: the default of the target's gateway type."""
    fallback: str | None = None
    fallback_when_down: bool = False
    """Items that were never attempted go to the fallback while the target is down."""
    warm_up: WarmUpPlan | None = None
    domains: DomainShaping | None = None
    """None: recipient domains are not told apart."""
    connections: int | None = None
    """The most calls at once of all workers together; None: as many as the target takes."""


@dataclass(frozen=True, slots=True)
class Door:
    """The state of a target at a URL that all workers share.

    `epoch` grows each time it closes: calls admitted earlier must not begin any more, and their
    reports are stale. `slots` is how many concurrent calls it takes, where that is known to be
    fewer than requested.
    """

    tokens: float
    refilled_at: datetime
    state: DoorState = DoorState.OPEN
    since: datetime | None = None
    opens_at: datetime | None = None
    probe_until: datetime | None = None
    epoch: int = 0
    step: int = 0
    failures: int = 0
    slots: int | None = None
    slots_at: datetime | None = None
    reason: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state is DoorState.OPEN

    @property
    def is_held(self) -> bool:
        """Closed because we were refused, and not because calls failed."""
        return self.state is DoorState.DOWN and not self.failures

    @property
    def is_untroubled(self) -> bool:
        return self.is_open and not self.failures and not self.step and self.slots is None


@dataclass(frozen=True, slots=True)
class Admission:
    """`granted` calls may begin; with none granted, ask again at `wait_until`."""

    granted: int
    wait_until: datetime | None
    door: Door
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """How calls ended that were admitted in one epoch of the door.

    `answered` by the provider, whatever it said; `failures` to get an answer; `throttled`: asked to
    retry later; `held`: it refused us, or our set-up, rather than a message. `unused`: a probe that
    never began. `in_flight` is how many calls were in progress; 0 says nothing about the door's
    slots.
    """

    epoch: int
    answered: int = 0
    failures: int = 0
    throttled: int = 0
    unused: int = 0
    retry_after_seconds: float | None = None
    in_flight: int = 1
    reason: str | None = None
    held: int = 0
    others_first: bool = False
    """Waits a little longer than others, so that another caller gets the next probe."""

    @property
    def is_trouble(self) -> bool:
        return bool(self.failures or self.throttled or self.held)


def throttle_reports(
    shared_epoch: int,
    own_epoch: int,
    asked_seconds: float | None,
    in_flight: int,
    said: str | None,
    *,
    again: bool = False,
) -> tuple[Report, Report]:
    """Reports of a throttled call to the shared door and to its own workspace's door. If the call
    was a probe, another workspace gets the next one."""
    if asked_seconds is None or asked_seconds <= THROTTLE_MOST_SECONDS:
        shared = Report(
            shared_epoch, throttled=1, retry_after_seconds=asked_seconds, in_flight=in_flight,
            reason=said,
        )  # fmt: skip
        return shared, replace(shared, epoch=own_epoch, in_flight=0, others_first=again)
    reason_text = f"it asked to wait {asked_seconds:,.0f} s"
    reason = f"{said}; {reason_text}" if said else reason_text
    shared = Report(
        shared_epoch, throttled=1, retry_after_seconds=THROTTLE_MOST_SECONDS, in_flight=in_flight,
        reason=f"{reason}; other workspaces try again after {THROTTLE_MOST_SECONDS:.0f} s",
    )  # fmt: skip
    return shared, Report(
        own_epoch, throttled=1, retry_after_seconds=asked_seconds, in_flight=0, reason=reason
    )


def merged(reports: Sequence[Report]) -> list[Report]:
    """Consecutive reports of the same kind merged: a window of failures is one change."""
    whole: list[Report] = []
    for each in reports:
        last = whole[-1] if whole else None
        if last is None or last.epoch != each.epoch or last.is_trouble != each.is_trouble:
            whole.append(each)
            continue
        waits = [
            wait
            for wait in (last.retry_after_seconds, each.retry_after_seconds)
            if wait is not None
        ]
        whole[-1] = Report(
            each.epoch,
            last.answered + each.answered,
            last.failures + each.failures,
            last.throttled + each.throttled,
            last.unused + each.unused,
            max(waits, default=None),
            max(last.in_flight, each.in_flight),
            each.reason or last.reason,
            last.held + each.held,
            last.others_first or each.others_first,
        )
    return whole


def admit(door: Door, policy: TargetPolicy, want: int, now: datetime) -> Admission:
    assert want > 0, "nobody asks to make no call"
    if door.is_open:
        return _draw_tokens(door, policy, want, now)
    if door.opens_at is not None and now < door.opens_at:
        return Admission(0, door.opens_at, door)
    if door.probe_until is not None and now < door.probe_until:
        look = now + timedelta(seconds=PROBE_LOOK_SECONDS)
        return Admission(0, min(look, door.probe_until), door)
    # One call probes for all. If its worker dies, another may try after a while.
    until = now + timedelta(seconds=policy.breaker_seconds)
    return Admission(1, None, replace(door, probe_until=until), is_probe=True)


def _draw_tokens(door: Door, policy: TargetPolicy, want: int, now: datetime) -> Admission:
    rate = policy.rate_per_second
    if rate is None:
        return Admission(want, None, door)
    # A clock that went back must not take tokens away.
    passed = max(0.0, (now - door.refilled_at).total_seconds())
    tokens = min(float(policy.burst), door.tokens + passed * rate)
    granted = min(want, int(tokens))
    after = replace(door, tokens=tokens - granted, refilled_at=now)
    if granted:
        return Admission(granted, None, after)
    # Enough to be worth waking for: as many as are wanted, up to a second's worth.
    worth = min(float(want), float(policy.burst), max(1.0, rate))
    return Admission(0, now + timedelta(seconds=(worth - tokens) / rate), after)


def report(door: Door, policy: TargetPolicy, seen: Report, now: datetime) -> Door:
    if seen.epoch != door.epoch:
        # They were admitted before the door closed: only a longer wait is new information.
        return _wait_longer(door, seen, now)
    if seen.held:
        return hold(door, policy, seen.reason, now)
    if seen.throttled:
        if seen.answered:
            door = replace(door, step=0)
        return _throttle(door, policy, seen, now)
    if seen.answered:
        return _open(door, now)
    if seen.failures:
        failures = door.failures + seen.failures
        door = replace(door, failures=failures, reason=seen.reason)
        if not door.is_open or failures >= policy.breaker_failures:
            wait = timedelta(seconds=policy.breaker_seconds)
            return _close(door, DoorState.DOWN, now + wait, now)
        return door
    if seen.unused and not door.is_open:
        return replace(door, probe_until=None)
    return door


def hold(door: Door, policy: TargetPolicy, reason: str | None, now: datetime) -> Door:
    """Nothing sent there can succeed: one refusal is enough to close it."""
    door = replace(door, failures=0, reason=reason)
    return _close(door, DoorState.DOWN, now + timedelta(seconds=policy.breaker_seconds), now)


def _open(door: Door, now: datetime) -> Door:
    door = replace(
        door, state=DoorState.OPEN, since=None, opens_at=None, probe_until=None, failures=0,
        step=0, reason=None,
    )  # fmt: skip
    return _grow(door, now)


def _grow(door: Door, now: datetime) -> Door:
    """Add a tenth, plus one, for each interval without a refusal."""
    if door.slots is None or door.slots_at is None:
        return door
    if now < door.slots_at + timedelta(seconds=SLOTS_GROW_SECONDS):
        return door
    return replace(door, slots=door.slots + 1 + door.slots // 10, slots_at=now)


def _throttle(door: Door, policy: TargetPolicy, seen: Report, now: datetime) -> Door:
    wait = min(THROTTLE_FIRST_SECONDS * 2.0 ** min(door.step, 32), policy.breaker_seconds)
    if seen.retry_after_seconds is not None:
        # The provider knows best; but repeated throttling lengthens the wait.
        wait = seen.retry_after_seconds if not door.step else max(wait, seen.retry_after_seconds)
    if seen.others_first:
        wait += PROBE_LOOK_SECONDS
    if door.is_open and seen.in_flight:
        known = door.slots if door.slots is not None else seen.in_flight
        door = replace(door, slots=max(1, min(known, seen.in_flight) // 2))
    door = replace(door, slots_at=now, failures=0, reason=seen.reason)
    return _close(door, DoorState.THROTTLED, now + timedelta(seconds=wait), now)


def _close(door: Door, state: DoorState, opens_at: datetime, now: datetime) -> Door:
    return replace(
        door, state=state, since=door.since or now, opens_at=opens_at, probe_until=None,
        epoch=door.epoch + 1, step=door.step + 1,
    )  # fmt: skip


def _wait_longer(door: Door, seen: Report, now: datetime) -> Door:
    if door.is_open or seen.retry_after_seconds is None:
        return door
    asked = now + timedelta(seconds=seen.retry_after_seconds)
    return replace(door, opens_at=max(asked, door.opens_at or asked))


def reset(door: Door, now: datetime) -> Door:
    """Reset to a healthy state, at an operator's request."""
    fresh = Door(door.tokens, door.refilled_at, epoch=door.epoch + (not door.is_open))
    return replace(fresh, slots=None, slots_at=now)


def share_of(slots: int, wanted: int, place: int, holders: int, others: int) -> int:
    """One worker's share of a door's slots: equal for all, and never more than are free.

    `place` is the worker's index among all `holders`; `others` is what they currently hold.
    """
    assert 0 <= place < holders
    even = slots // holders + (place < slots % holders)
    return max(0, min(wanted, even, slots - others))

"""A target's doors: locked, changed by a pure function, and saved, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.ids import Scope, WorkerId
from outrider.domain.submission import Contract
from outrider.domain.targets import Door, DoorState, TargetPolicy, reset, share_of
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
    raise_alert,
    resolve_alert,
    resolve_in_workspace,
)
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Result, Row, Transaction, ask, ask_alone

EVERYBODYS = ""
"""The workspace id of the door that all workspaces share."""

DOOR_ALERTS = (AlertCode.TARGET_HELD, AlertCode.TARGET_DOWN, AlertCode.TARGET_THROTTLED)
"""Held: it refuses our set-up, and somebody has to change something. Down: it is unreachable or
gives no usable answer. Throttled: it has been asking to retry later for a while."""

Change = Callable[[Door], tuple[Door, Result]]


class DoorKey(NamedTuple):
    """A target at a URL; with a workspace, the door for problems caused by that workspace's
    messages."""

    submission_target: str
    gateway_url: str
    workspace_id: str = EVERYBODYS

    @property
    def shared(self) -> "DoorKey":
        return self._replace(workspace_id=EVERYBODYS)

    @property
    def place(self) -> tuple[str, str]:
        """The target at its address, whoever's door it is."""
        return self.submission_target, self.gateway_url


def change_door(
    key: DoorKey, policy: TargetPolicy, change: Change[Result], now: datetime
) -> Transaction[Result]:
    before = yield from _locked(key, policy, now)
    after, result = change(before)
    if after != before:
        yield from _save(key, after, now)
    return result


def _locked(key: DoorKey, policy: TargetPolicy, now: datetime) -> Transaction[Door]:
    found = yield from ask("lock_door", **key._asdict())
    if not found:
        yield from ask("insert_door", **key._asdict(), tokens=float(policy.burst), now=now)
        found = yield from ask("lock_door", **key._asdict())
    return _door(found[0])


def _save(key: DoorKey, door: Door, now: datetime) -> Transaction[None]:
    yield from ask(
        "save_door",
        **key._asdict(),
        tokens=door.tokens,
        refilled_at=door.refilled_at,
        state=door.state.value,
        since=door.since,
        opens_at=door.opens_at,
        probe_until=door.probe_until,
        epoch=door.epoch,
        step=door.step,
        failures=door.failures,
        slots=door.slots,
        slots_at=door.slots_at,
        reason=door.reason,
        now=now,
    )


class TargetState(NamedTuple):
    """Everything that decides whether calls may start: both doors, and whether the target is
    paused. None: it has never been called."""

    shared: Door | None
    own: Door | None
    is_paused: bool


def target_state(key: DoorKey) -> Transaction[TargetState]:
    rows = yield from ask_alone("doors_of_target", **key._asdict())
    doors = {row[0]: _door(row[1:]) for row in rows if row[0] is not None}
    is_paused = any(row[0] is None for row in rows)
    return TargetState(doors.get(EVERYBODYS), doors.get(key.workspace_id), is_paused)


def renew_share(
    key: DoorKey,
    policy: TargetPolicy,
    worker_id: WorkerId,
    wanted: int,
    in_use: int,
    lasts: timedelta,
    now: datetime,
) -> Transaction[int | None]:
    """The worker's share of the door's slots, or of the connections that the target's settings
    allow; None if there are enough for all workers. Calls in flight beyond a smaller share keep
    their slots from the others until they end."""
    door = yield from _locked(key, policy, now)
    place = {"submission_target": key.submission_target, "gateway_url": key.gateway_url}
    if door.slots is None and policy.connections is None:
        return None
    rows = yield from ask("live_shares", **place, now=now)
    others = [row for row in rows if row[0] != worker_id]
    slots = door.slots
    if slots is not None and slots >= wanted + sum(row[2] for row in others):
        # The provider no longer limits any worker.
        yield from _save(key, replace(door, slots=None, slots_at=None), now)
        slots = None
        if policy.connections is None:
            yield from ask("forget_shares", **place)
            return None
    most = min(each for each in (slots, policy.connections) if each is not None)
    names = sorted([worker_id, *(row[0] for row in others)])
    taken = sum(row[1] for row in others)
    part = share_of(most, wanted, names.index(worker_id), len(names), taken)
    yield from ask(
        "save_share", **place, worker_id=worker_id, slots=max(part, in_use), wanted=wanted,
        expires_at=now + lasts,
    )  # fmt: skip
    return part


def all_doors(most: int) -> Transaction[dict[DoorKey, Door]]:
    rows = yield from ask("all_doors", most=most)
    return {DoorKey(*row[:3]): _door(row[3:]) for row in rows}


def troubled_doors(submission_target: str, most: int) -> Transaction[list[DoorKey]]:
    rows = yield from ask("troubled_doors", submission_target=submission_target, most=most)
    return [DoorKey(*row[:3]) for row in rows]


class TargetPause(NamedTuple):
    paused_by: str
    paused_at: datetime


def paused_targets() -> Transaction[dict[str, TargetPause]]:
    rows = yield from ask("paused_targets")
    return {row[0]: TargetPause(*row[1:]) for row in rows}


def pause(submission_target: str, actor: str, now: datetime) -> Transaction[bool]:
    """Whether it was running before."""
    rows = yield from ask("pause_target", submission_target=submission_target, actor=actor, now=now)
    return bool(rows)


def resume(submission_target: str) -> Transaction[bool]:
    """Whether it was paused."""
    rows = yield from ask("resume_target", submission_target=submission_target)
    return bool(rows)


class Overview(NamedTuple):
    """The state of all targets: their doors, and which are paused."""

    doors: dict[DoorKey, Door]
    paused: dict[str, TargetPause]

    def door(self, contract: Contract, workspace_id: str) -> Door | None:
        """Of the two doors that a workspace goes through, the one that is closed for it."""
        key = DoorKey(contract.submission_target, contract.gateway_url, workspace_id)
        shared, own = self.doors.get(key.shared), self.doors.get(key)
        return own if own is not None and not own.is_open else shared


def overview(most: int) -> Transaction[Overview]:
    return Overview((yield from all_doors(most)), (yield from paused_targets()))


def wake(submission_target: str, now: datetime) -> Transaction[None]:
    """Jobs that wait for the target's door become due at once."""
    yield from ask("wake_target", submission_target=submission_target, now=now)


class TargetLoad(NamedTuple):
    """A workspace's load at a target: jobs that have not settled, and items in doubt."""

    open_jobs: int = 0
    in_doubt: int = 0


def loads(scope: Scope) -> Transaction[dict[str, TargetLoad]]:
    jobs = yield from ask("open_jobs_by_target", **scope._asdict())
    found = {row[0]: TargetLoad(open_jobs=row[1]) for row in jobs}
    for target, count in (yield from ask("doubts_by_target", **scope._asdict())):
        found[target] = found.get(target, TargetLoad())._replace(in_doubt=count)
    return found


def _door(row: Row) -> Door:
    tokens, refilled_at, state, *rest = row
    return Door(tokens, refilled_at, DoorState(state), *rest)


def pause_recorded(
    scope: Scope, target: str, actor: str, ids: IdSource, now: datetime
) -> Transaction[bool]:
    """Whether it was running before; if so, who paused it is recorded."""
    changed = yield from pause(target, actor, now)
    if changed:
        yield from _recorded(scope, "target.paused", target, actor, ids, now)
    return changed


def resume_recorded(
    scope: Scope, target: str, actor: str, ids: IdSource, now: datetime
) -> Transaction[bool]:
    changed = yield from resume(target)
    if changed:
        yield from wake(target, now)
        yield from _recorded(scope, "target.resumed", target, actor, ids, now)
    return changed


def reset_recorded(
    scope: Scope, target: str, actor: str, most: int, ids: IdSource, now: datetime
) -> Transaction[bool]:
    """Open all its doors and clear their failures; returns whether there was anything to clear."""

    def clear(door: Door) -> tuple[Door, None]:
        return reset(door, now), None

    troubled = yield from troubled_doors(target, most)
    for key in troubled:
        yield from change_door(key, TargetPolicy(), clear, now)
    if troubled:
        yield from wake(target, now)
        for code in DOOR_ALERTS:
            yield from resolve_alert(code, target, now)
        yield from _recorded(scope, "target.reset", target, actor, ids, now)
    return bool(troubled)


def open_contracts() -> Transaction[list[int]]:
    """Those of jobs that have not ended, their fallbacks included."""
    rows = yield from ask_alone("open_contracts")
    return [row[0] for row in rows]


def forget_doors(keys: Sequence[DoorKey], most: int, now: datetime) -> Transaction[None]:
    """Open them, as if they had never been called; their alerts end with the last closed door of
    the target."""

    def clear(door: Door) -> tuple[Door, None]:
        return reset(door, now), None

    for key in keys:
        yield from change_door(key, TargetPolicy(), clear, now)
    doors = yield from all_doors(most)
    still_closed = {key.submission_target for key, door in doors.items() if not door.is_open}
    for target in sorted({key.submission_target for key in keys} - still_closed):
        for code in DOOR_ALERTS:
            yield from resolve_alert(code, target, now)


def _recorded(
    scope: Scope, event: str, target: str, actor: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    entry = AuditEntry(scope, event, actor, detail={"submissionTarget": target})
    yield from record([entry], ids, now)


def change_door_with_alert(
    key: DoorKey,
    policy: TargetPolicy,
    change: Change[tuple[Door, Door]],
    scope: Scope,
    alert_of: Callable[[Door], Alert | None],
    ids: IdSource,
    now: datetime,
) -> Transaction[tuple[Door, Door]]:
    """Change a door, and raise or resolve its alert with it, in the workspace that asked."""
    before, after = yield from change_door(key, policy, change, now)
    alert = alert_of(after) if after != before and not after.is_open else None
    if not before.is_open and (after.is_open or alert is not None):
        # One of them at most is open for a target: a door that was down may be throttled now.
        for code in DOOR_ALERTS:
            if alert is not None and code is alert.code:
                continue
            if key.workspace_id:
                yield from resolve_in_workspace(code, key.submission_target, scope, now)
            else:
                yield from resolve_alert(code, key.submission_target, now)
    if alert is not None:
        yield from raise_alert(alert, ids, now)
    return before, after

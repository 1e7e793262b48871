"""Warm-up plans, counted where attempts are opened: no two transactions open messages of one target
at the same time, and a message counts once a day, however often it is opened.

Only targets with a plan pay for it, until the plan is over.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from outrider.domain.ids import OutboxId
from outrider.domain.warm_up import WarmUp
from outrider.ports.store import Transaction, ask

Element = TypeVar("Element")
OpenSome = Callable[[Sequence[Element]], Transaction[Collection[OutboxId]]]
"""Opens what it can of these; returns what it opened."""


def open_within(
    warm_up: WarmUp,
    always: Sequence[Element],
    others: Sequence[Element],
    open_some: OpenSome[Element],
    now: datetime,
) -> Transaction[Sequence[Element]]:
    """Open what the day's plan allows, and return those beyond it. `always` are opened in any case:
    what is only recorded, was counted today already, or repeats a call."""
    left = yield from _locked(warm_up, now)
    if left is None:
        yield from open_some([*always, *others])
        warm_up.learn(None, now)
        return ()
    opened: set[OutboxId] = set()
    chunk, taken = [*always, *others[:left]], min(left, len(others))
    while chunk:
        got = yield from open_some(chunk)
        opened.update(got)
        if taken == len(others):
            break
        # What has opted out does not count, so others take its place.
        more = min(left - len(opened), len(others) - taken)
        chunk = list(others[taken : taken + max(0, more)])
        taken += len(chunk)
    counted = yield from _note(warm_up, opened, now)
    warm_up.learn(left - counted, now)
    return others[taken:]


def settled(
    warm_up: WarmUp, outbox_ids: Sequence[OutboxId], now: datetime
) -> Transaction[set[OutboxId]]:
    """Those that the plan does not hold back: counted today, or possibly received already."""
    rows = yield from ask(
        "warm_up_settled",
        {"id": outbox_ids},
        submission_target=warm_up.submission_target,
        day=warm_up.plan.day(now),
    )
    return {row[0] for row in rows}


class WarmUpDay(NamedTuple):
    """Where a target stands in its plan: the number of days before, and what was sent today."""

    days_before: int
    sent: int


def today(warm_up: WarmUp, now: datetime) -> Transaction[WarmUpDay]:
    place = {"submission_target": warm_up.submission_target, "day": warm_up.plan.day(now)}
    rows = yield from ask("warm_up_today", **place)
    return WarmUpDay(*rows[0])


def _locked(warm_up: WarmUp, now: datetime) -> Transaction[int | None]:
    """How many more may be sent today, with the day locked; None: the plan is over."""
    place = {"submission_target": warm_up.submission_target, "day": warm_up.plan.day(now)}
    yield from ask("lock_warm_up_day", **place, now=now)
    days_before, sent = yield from today(warm_up, now)
    limit = warm_up.plan.limit(days_before)
    return None if limit is None else max(0, limit - sent)


def _note(warm_up: WarmUp, opened: Collection[OutboxId], now: datetime) -> Transaction[int]:
    """Count those that were not counted today; returns how many."""
    if not opened:
        return 0
    place = {"submission_target": warm_up.submission_target, "day": warm_up.plan.day(now)}
    rows = yield from ask("note_warm_up_sends", {"id": sorted(opened)}, **place)
    if rows:
        yield from ask("count_warm_up_sends", **place, items=len(rows), now=now)
        yield from ask("forget_warm_up_sends", **place)
    return len(rows)

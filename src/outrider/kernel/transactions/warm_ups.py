"""Warm-up plans, counted where attempts are opened: no two transactions open messages of one plan
at the same time, and a message counts once a day, however often it is opened.

A message may count in two plans: its target's and its recipient domain's. Only targets with a plan
pay for it, until the plan is over.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from outrider.domain.ids import OutboxId
from outrider.domain.warm_up import WarmUp
from outrider.ports.store import Transaction, Window, ask

Element = TypeVar("Element")
OpenSome = Callable[[Sequence[Element]], Transaction[Collection[OutboxId]]]
"""Opens what it can of these; returns what it opened."""


class Candidate(NamedTuple):
    """A message that may be opened, and the plans that it counts in."""

    id: OutboxId
    warm_ups: Sequence[WarmUp]


def open_within(
    always: Sequence[Candidate],
    others: Sequence[Candidate],
    open_some: OpenSome[OutboxId],
    now: datetime,
) -> Transaction[Sequence[OutboxId]]:
    """Open what the day's part of each plan allows, and return what is beyond it. `always` are
    opened in any case: what is only recorded, was counted today already, or repeats a call."""
    warm_ups = {each.domain: each for one in (*always, *others) for each in one.warm_ups}
    left = (yield from _locked(warm_ups, now)) if warm_ups else {}
    opened: set[OutboxId] = set()
    waiting, chunk = list(others), [each.id for each in always]
    used: Counter[str] = Counter()
    while True:
        chosen, waiting = _chosen(waiting, left, used)
        chunk += [each.id for each in chosen]
        if not chunk:
            break
        opened.update((yield from open_some(chunk)))
        # What has opted out does not count, so others take its place.
        used.update(
            warm_up.domain for each in chosen if each.id in opened for warm_up in each.warm_ups
        )
        chunk = []
        if not waiting or not chosen:
            break
    counted = yield from _note([*always, *others], opened, left, warm_ups, now)
    for domain, warm_up in warm_ups.items():
        room = left[domain]
        warm_up.learn(None if room is None else room - counted[domain], now)
    return [each.id for each in waiting]


def settled(
    warm_up: WarmUp, outbox_ids: Sequence[OutboxId], now: datetime
) -> Transaction[set[OutboxId]]:
    """Those that no plan of its target holds back: counted today, or possibly received already."""
    rows = yield from ask("warm_up_settled", {"id": outbox_ids}, **_day(warm_up, now))
    return {row[0] for row in rows}


def _chosen(
    waiting: Sequence[Candidate], left: Mapping[str, int | None], used: Mapping[str, int]
) -> tuple[list[Candidate], list[Candidate]]:
    """Those for whom all their plans have room, in order, and the others."""
    chosen: list[Candidate] = []
    others: list[Candidate] = []
    taken = Counter(used)
    for each in waiting:
        domains = [warm_up.domain for warm_up in each.warm_ups]
        rooms = [(left[domain], taken[domain]) for domain in domains]
        if all(room is None or count < room for room, count in rooms):
            taken.update(domains)
            chosen.append(each)
        else:
            others.append(each)
    return chosen, others


def _locked(warm_ups: Mapping[str, WarmUp], now: datetime) -> Transaction[dict[str, int | None]]:
    """How many more each plan allows today, with its day locked; None: the plan is over."""
    window = {"domain": sorted(warm_ups)}
    place = _day(next(iter(warm_ups.values())), now)
    yield from ask("lock_warm_up_days", window, **place, now=now)
    rows = yield from ask("warm_up_today", window, **place)
    left: dict[str, int | None] = {}
    for domain, days_before, sent in rows:
        limit = warm_ups[domain].plan.limit(days_before)
        left[domain] = None if limit is None else max(0, limit - sent)
    return left


def _note(
    candidates: Sequence[Candidate],
    opened: Collection[OutboxId],
    left: Mapping[str, int | None],
    warm_ups: Mapping[str, WarmUp],
    now: datetime,
) -> Transaction[Counter[str]]:
    """Count those that were not counted today, in each plan that is not over; returns how many."""
    counted: Counter[str] = Counter()
    counting = {
        each.id: [one.domain for one in each.warm_ups if left[one.domain] is not None]
        for each in candidates
        if each.id in opened
    }
    noted = sorted(each for each, domains in counting.items() if domains)
    if not noted:
        return counted
    place = _day(next(iter(warm_ups.values())), now)
    rows = yield from ask("note_warm_up_sends", {"id": noted}, **place)
    for row in rows:
        counted.update(counting[OutboxId(row[0])])
    if counted:
        domains = sorted(counted)
        window: Window = {"domain": domains, "items": [counted[each] for each in domains]}
        yield from ask("count_warm_up_sends", window, **place, now=now)
        yield from ask("forget_warm_up_sends", **place)
    return counted


def _day(warm_up: WarmUp, now: datetime) -> dict[str, str]:
    """All plans of a target begin their days at the same time."""
    return {"submission_target": warm_up.submission_target, "day": warm_up.plan.day(now)}

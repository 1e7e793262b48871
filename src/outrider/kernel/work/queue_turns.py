"""Queue turns: chooses the group that a worker takes jobs from next, so that all get their share.

A group is the jobs of one mode, workspace and target. Stopped runs come first, because ending them
needs no calls; then realtime; then the group with the fewest active jobs here.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.domain.submission import REALTIME
from outrider.kernel.transactions.claims import QueueGroup


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """What a worker processes; None: everything."""

    targets: frozenset[str] | None = None
    mode: str | None = None

    def takes(self, group: QueueGroup) -> bool:
        if group.is_cancelled:
            return True
        if self.mode is not None and group.mode != self.mode:
            return False
        return self.targets is None or group.submission_target in self.targets

    def takes_mode(self, mode: str) -> bool:
        return self.mode is None or self.mode == mode


class QueueTurns:
    def __init__(
        self, work_filter: WorkFilter, closed_until: Callable[[str], datetime | None]
    ) -> None:
        self._filter = work_filter
        self._closed_until = closed_until
        self._groups: dict[str, QueueGroup] = {}
        self._served: dict[str, int] = {}
        self._turn = 0

    def learn(self, groups: Sequence[QueueGroup]) -> None:
        """The groups waiting in the queue, as just read from the database."""
        self._groups = {each.name: each for each in groups if self._filter.takes(each)}
        self._served = {name: at for name, at in self._served.items() if name in self._groups}

    def drained(self, name: str) -> None:
        """It had fewer jobs than were requested."""
        self._groups.pop(name, None)

    def due(self, now: datetime) -> list[QueueGroup]:
        return [
            each
            for each in self._groups.values()
            if each.run_at is not None and each.run_at <= now and not self._is_closed(each)
        ]

    def next_due(self) -> datetime | None:
        """When the next group becomes available that is not available now."""
        due_times = []
        for each in self._groups.values():
            if each.run_at is None:
                continue
            closed = self._closed_at(each)
            due_times.append(max(each.run_at, closed) if closed is not None else each.run_at)
        return min(due_times, default=None)

    def choose(self, room: int, held: Counter[str], now: datetime) -> dict[str, int]:
        """How many jobs to take from which group."""
        due, chosen = self.due(now), Counter[str]()
        while due and chosen.total() < room:
            best = min(due, key=lambda each: self._rank(each, held, chosen))
            chosen[best.name] += 1
            self._turn += 1
            self._served[best.name] = self._turn
        return dict(chosen)

    def _rank(
        self, group: QueueGroup, held: Counter[str], chosen: Counter[str]
    ) -> tuple[int, int, int]:
        urgency = 0 if group.is_cancelled else 1 if group.mode == REALTIME else 2
        at_work = held[group.name] + chosen[group.name]
        return urgency, at_work, self._served.get(group.name, 0)

    def _is_closed(self, group: QueueGroup) -> bool:
        return self._closed_at(group) is not None

    def _closed_at(self, group: QueueGroup) -> datetime | None:
        target = group.submission_target
        return None if target is None else self._closed_until(target)

"""What happens in a world, as a list of named happenings, each with its own draw from the seed.

Because each draws for itself, leaving one out changes nothing about the others: a failing world can
be cut down to the few that it needs. `--keep` names those.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    """The kinds of happenings; the first letters of a happening's name say which it is."""

    LAUNCH = "launch"
    KILL = "kill"
    FREEZE = "freeze"
    CLOCK_STEP = "clock"
    PAUSE = "pause"
    STOP = "stop"
    RERUN = "rerun"
    RETRY = "retry"
    RETRY_STEP = "retrystep"
    ADVANCE = "advance"
    INTENTS = "intents"
    EVENTS = "events"
    OPT_OUT = "optout"
    POLICY = "policy"
    REPORTS = "reports"
    STORE_FAULTS = "store"
    PROVIDER_FAULTS = "provider"


AT_ANY_TIME = {
    What.INTENTS: 5, What.EVENTS: 5, What.PAUSE: 4, What.FREEZE: 4, What.CLOCK_STEP: 4,
    What.OPT_OUT: 3, What.STOP: 1, What.RETRY: 1, What.RERUN: 1, What.RETRY_STEP: 1,
    What.ADVANCE: 1,
}  # fmt: skip
"""How often each happens, in proportion."""
HAPPENINGS_MOST = 10
TROUBLED_SECONDS = 10.0
WORKERS_MOST, LIVES_MOST = 3, 4
LAUNCHES_MOST = 2
POLICY_RATE, STORE_FAULTS_RATE, REPORTS_RATE = 0.35, 0.5, 0.6


@dataclass(frozen=True)
class Happening:
    name: str
    what: What
    seed: int
    at_seconds: float = 0.0

    def draws(self) -> random.Random:
        return random.Random(f"{self.seed} {self.name}")


@dataclass(frozen=True)
class Plan:
    seed: int
    workers: int
    happenings: tuple[Happening, ...]

    def of(self, *whats: What) -> list[Happening]:
        return [each for each in self.happenings if each.what in whats]

    def names(self) -> list[str]:
        return [each.name for each in self.happenings]

    def only(self, kept: Collection[str]) -> "Plan":
        happenings = tuple(each for each in self.happenings if each.name in kept)
        return Plan(self.seed, self.workers, happenings)

    def lives_of(self, worker: int) -> list[Happening]:
        """The deaths of a worker, one after the other."""
        return [each for each in self.of(What.KILL) if each.name.startswith(f"kill-{worker}.")]


def draw_plan(seed: int, providers: Collection[str]) -> Plan:
    drawn = random.Random(f"{seed} plan")
    workers = drawn.randint(1, WORKERS_MOST)
    lives = [drawn.randint(0, LIVES_MOST) for _ in range(workers)]
    always = [f"{What.LAUNCH}-{number}" for number in range(drawn.randint(1, LAUNCHES_MOST))]
    always += [f"{What.KILL}-{worker}.{life}" for worker in range(workers)
               for life in range(lives[worker])]  # fmt: skip
    always += [f"{What.PROVIDER_FAULTS}-{name}" for name in providers]
    for what, rate in (
        (What.POLICY, POLICY_RATE),
        (What.STORE_FAULTS, STORE_FAULTS_RATE),
        (What.REPORTS, REPORTS_RATE),
    ):
        if drawn.random() < rate:
            always.append(f"{what}-0")
    happenings = [Happening(name, What(name.split("-")[0]), seed) for name in always]
    kinds, weights = list(AT_ANY_TIME), list(AT_ANY_TIME.values())
    for number in range(drawn.randint(0, HAPPENINGS_MOST)):
        own = random.Random(f"{seed} happening {number}")
        [what] = own.choices(kinds, weights)
        at_seconds = own.uniform(0.0, TROUBLED_SECONDS) if number else own.uniform(0.0, 2.0)
        happenings.append(Happening(f"{what}-{number}", what, seed, at_seconds))
    return Plan(seed, workers, tuple(happenings))

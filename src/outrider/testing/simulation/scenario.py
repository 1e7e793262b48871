"""One world from its beginning to its end, and what has to be true then."""

import asyncio
import gc
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import structlog

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.states import TERMINAL_RUNS
from outrider.testing.launches import observe
from outrider.testing.simulation.people import People
from outrider.testing.simulation.plan import AT_ANY_TIME, Happening, Plan, What, draw_plan
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import GATEWAY_TYPE, Kind, Provider, ProviderFaults
from outrider.testing.simulation.reports import Reporter
from outrider.testing.simulation.virtual_time import NothingLeft, VirtualLoop
from outrider.testing.simulation.witness import CLOCK_STEP_SECONDS
from outrider.testing.simulation.world import SINK, World

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 900.0
DATABASE_CLOCK_RATE = 0.5
PROVIDERS_OF_A_WORLD = 3
FUSE_LEAST, FUSE_MOST = 20, 900
IN_MEMORY = Path("/dev/shm")
"""Where the machine has it: journals and settings are synced to a disk, which nobody checks."""


@dataclass
class Outcome:
    seed: int
    happenings: list[str] = field(default_factory=list)
    kills: int = 0
    items: int = 0
    duplicates: int = 0
    lost: int = 0
    stuck: int = 0
    findings: list[str] = field(default_factory=list)
    digest: str = ""
    """Of everything that happened: the same seed gives the same one."""

    @property
    def holds(self) -> bool:
        return not (self.duplicates or self.lost or self.stuck or self.findings)


def simulate(seed: int, kept: Collection[str] | None = None) -> Outcome:
    """`kept`: the happenings that are not left out."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    random.seed(seed)
    loop = VirtualLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    outcome = Outcome(seed)
    # Between worlds: what is cleared away within one would run its last steps at any time.
    gc.disable()
    folder = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=folder) as made:
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(_run(seed, Path(made), outcome, kept))
        except NothingLeft as error:
            outcome.stuck += 1
            outcome.findings.append(str(error))
        finally:
            for task in asyncio.all_tasks(loop):
                # Of processes that were killed: they wait for an answer that cannot come.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            asyncio.set_event_loop(None)
            loop.close()
            gc.enable()
    return outcome


def plan_of(seed: int) -> Plan:
    return draw_plan(seed, [kind.value for kind in _kinds(seed)])


def _kinds(seed: int) -> list[Kind]:
    """One of them at least sends texts, which events and opt-outs are about."""
    drawn = random.Random(f"{seed} kinds")
    texting = drawn.choice([kind for kind in Kind if GATEWAY_TYPE[kind] == "sms"])
    others = [kind for kind in Kind if kind is not texting]
    return [texting, *drawn.sample(others, PROVIDERS_OF_A_WORLD - 1)]


async def _run(seed: int, folder: Path, outcome: Outcome, kept: Collection[str] | None) -> None:
    plan = plan_of(seed)
    if kept is not None:
        plan = plan.only(kept)
    outcome.happenings = plan.names()
    traits = random.Random(f"{seed} traits")
    providers = {
        kind.value: Provider(
            kind.value, kind, ProviderFaults(), random.Random(f"{seed} {kind.value}")
        )
        for kind in _kinds(seed)
    }
    world = World(seed, folder, providers, sees_processes=traits.random() < 1 / 2)
    with world.wired():
        server = world.outrider(world.process("server"))
        story = _Story(world, server, plan)
        await story.begin()
        for number in range(plan.workers):
            fuses = [each.draws().randint(FUSE_LEAST, FUSE_MOST) for each in plan.lives_of(number)]
            world.begin(world.keep_working(f"worker-{number}", fuses))
        troubles = world.begin(story.trouble())
        await story.until_settled()
        if troubles.done():
            # A refusal that it does not expect is a finding of its own.
            troubles.result()
        await story.judge(outcome)
        await world.end()
    outcome.kills = world.kills
    outcome.duplicates = world.witness.duplicates
    outcome.lost += world.witness.lost
    outcome.findings += world.findings


class _Story:
    def __init__(self, world: World, server: Outrider, plan: Plan) -> None:
        self._world = world
        self._server = server
        self._plan = plan
        self._people = People(world, server)
        self._reporter = Reporter(world, server, bool(plan.of(What.REPORTS)))
        self._troubles_left = 1
        for provider in world.providers.values():
            provider.on_take.append(self._reporter.took)

    async def begin(self) -> None:
        await self._people.begin(self._plan)
        for happening in self._plan.of(What.STORE_FAULTS):
            faults = self._world.store_faults
            faults.refused_rate, faults.unacknowledged_rate = happening.draws().choice(
                [(0.02, 0.0), (0.0, 0.02), (0.02, 0.02)]
            )
        for happening in self._plan.of(What.PROVIDER_FAULTS):
            provider = self._world.providers[happening.name.split("-")[1]]
            provider.faults = ProviderFaults.drawn(happening.draws())

    async def trouble(self) -> None:
        """Everything that can happen at any time, each at its own; then everything heals."""
        under_way = [
            asyncio.create_task(self._happens(each)) for each in self._plan.of(*AT_ANY_TIME)
        ]
        if under_way:
            await asyncio.gather(*under_way)
        await asyncio.sleep(self._world.random.uniform(0.0, 4.0))
        self._heal()
        self._troubles_left = 0

    async def _happens(self, happening: Happening) -> None:
        await asyncio.sleep(happening.at_seconds)
        match happening.what:
            case What.FREEZE:
                await self._freeze(happening.draws())
            case What.CLOCK_STEP:
                self._step_a_clock(happening.draws())
            case What.INTENTS | What.EVENTS | What.OPT_OUT:
                await self._people.do(happening)
            case _ if self._people.runs:
                await self._people.do(happening)

    def _heal(self) -> None:
        self._world.store_faults.heal()
        self._world.received.fails = False
        for provider in self._world.providers.values():
            provider.faults.heal()

    def _step_a_clock(self, draws: random.Random) -> None:
        """A machine's clock is set, forwards or back, or the database's."""
        step = draws.uniform(-CLOCK_STEP_SECONDS, CLOCK_STEP_SECONDS)
        if draws.random() < DATABASE_CLOCK_RATE:
            self._world.database_time.ahead_seconds = step
            return
        for process in self._a_worker(draws):
            process.clock_ahead_seconds = step

    def _a_worker(self, draws: random.Random) -> list[Process]:
        living = [each for each in self._world.living() if each.worker_id.startswith("worker")]
        return [draws.choice(living)] if living else []

    async def _freeze(self, draws: random.Random) -> None:
        for process in self._a_worker(draws):
            process.freeze()
            await asyncio.sleep(draws.uniform(1.0, 15.0))
            process.resume()

    async def until_settled(self) -> None:
        """Until all has ended; doubts nobody else settles are a person's."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_SECONDS
        while loop.time() < give_up_at:
            await asyncio.sleep(LOOK_SECONDS)
            await self._people.settle_by_hand()
            if not self._troubles_left and not self._unsettled():
                return

    def _unsettled(self) -> list[str]:
        """What is still to come, by name."""
        found = [name for name, sql in _OPEN.items() if self._world.rows(sql)]
        if not self._reporter.is_done:
            found.append("reports")
        runs = self._world.rows("SELECT status FROM campaign_runs")
        if not all(status in TERMINAL_RUNS for (status,) in runs):
            found.append("runs")
        return found

    async def judge(self, outcome: Outcome) -> None:
        self._heal()
        world = self._world
        rows = world.rows("SELECT id, status FROM channel_outbox")
        outcome.items = len(rows)
        unsettled = self._unsettled()
        if unsettled or self._troubles_left:
            outcome.stuck += 1
            left = dict(Counter(status for _, status in rows))
            world.find(f"not settled after {PATIENCE_SECONDS:.0f} s: {unsettled}, {left}")
        world.witness.check_end()
        self._reporter.check()
        self._check_doors(outcome)
        self._check_people()
        if not unsettled:
            self._check_bus()
        for run_id in self._people.runs:
            await self._certify(run_id)
        outcome.digest = self._digest()

    def _check_doors(self, outcome: Outcome) -> None:
        """What was acknowledged is in the ledger: each intent, and each event with its messages."""
        world = self._world
        for name, given, found in (
            ("intents", len(self._people.intents),
             "SELECT count(*) FROM channel_outbox WHERE origin = 'intent'"
             " AND answers_receipt IS NULL"),
            ("events", len(self._people.events), "SELECT count(*) FROM domain_events"),
            ("events' messages", 2 * len(self._people.events),
             "SELECT count(*) FROM channel_outbox WHERE origin = 'workflow'"
             " AND domain_event_id IS NOT NULL AND id NOT IN (SELECT outbox_id FROM digests"
             " WHERE outbox_id IS NOT NULL)"),
            ("digests' entries", len(self._people.events), "SELECT count(*) FROM digest_entries"),
        ):  # fmt: skip
            [(count,)] = world.rows(found)
            if count != given:
                outcome.lost += 1
                world.find(f"{given} {name} were taken, and there are {count}")

    def _check_people(self) -> None:
        """Nobody is reached twice by a campaign, unless it was told to reach everybody again."""
        reached: Counter[tuple[str, str]] = Counter()
        for campaign_id, recipient_id in self._world.rows(
            "SELECT r.campaign_id, o.recipient_id FROM channel_outbox o"
            " JOIN campaign_runs r ON r.id = o.run_id WHERE o.status = 'sent'"
        ):
            if campaign_id not in self._people.everyone_again:
                reached[campaign_id, recipient_id] += 1
        for (campaign_id, recipient_id), times in reached.items():
            if times > 1:
                self._world.witness.duplicates += 1
                self._world.find(f"{recipient_id} was reached {times} times by {campaign_id}")

    def _check_bus(self) -> None:
        for run_id, last in self._world.rows(
            "SELECT run_id, max(run_seq) FROM run_events GROUP BY run_id"
        ):
            found = self._world.received.last.get(run_id, 0)
            if found != last:
                self._world.find(f"the bus got {found} of {last} events of {run_id}")

    def _digest(self) -> str:
        ledger = self._world.rows(
            "SELECT id, status, attempts, attempt_opened_at, attempt_closed_at, reason"
            " FROM channel_outbox ORDER BY id"
        )
        events = self._world.rows(
            "SELECT run_id, run_seq, type, payload FROM run_events ORDER BY 1, 2"
        )
        return sha256(repr((ledger, events)).encode()).hexdigest()

    async def _certify(self, run_id: RunId) -> None:
        run, accounting = await observe(self._server, run_id)
        if not accounting.holds:
            self._world.find(f"{run_id}: {accounting}")
        if run.status in TERMINAL_RUNS:
            certificate = await self._server.certifier.certify(DEFAULT_SCOPE, run_id)
            failing = [each.name for each in certificate.criteria if not each.holds]
            if failing:
                self._world.find(f"{run_id}: the certificate does not hold: {failing}")


_OPEN = {
    "items": "SELECT 1 FROM channel_outbox WHERE status = 'queued' OR doubted_at IS NOT NULL",
    "events": "SELECT 1 FROM domain_events WHERE status = 'received'",
    "digests": "SELECT 1 FROM digests WHERE closed_at IS NULL",
    "receipts": "SELECT 1 FROM waiting_receipts w JOIN receipts r ON r.id = w.id"
    " WHERE r.reference IS NOT NULL",
    "bus": f"SELECT 1 FROM event_bus_outbox WHERE sink = '{SINK}'",
}
"""What is not settled while one of these finds anything."""

"""What happens in one world, drawn from its seed; and what has to be true at its end."""

import asyncio
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import structlog

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId
from outrider.domain.phases import Action
from outrider.domain.states import TERMINAL_RUNS, Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.phase_controls import Control
from outrider.stores.sqlite.values import time_to_text
from outrider.testing.launches import launch, message, observe, people
from outrider.testing.simulation.memory_store import StoreFaults
from outrider.testing.simulation.process import Process
from outrider.testing.simulation.providers import Kind, Provider, ProviderFaults
from outrider.testing.simulation.virtual_time import NothingLeft, VirtualLoop, moment
from outrider.testing.simulation.world import World, retried


class Trouble(StrEnum):
    """What can go wrong in a world; a failing one is tried again without each of them."""

    KILLS = "kills"
    FREEZES = "freezes"
    PAUSES = "pauses"
    CLOCK_STEPS = "clock-steps"
    MESSAGES = "messages"
    STORE_FAULTS = "store-faults"
    PROVIDER_FAULTS = "provider-faults"


LOOK_SECONDS = 1.0
PERSON_SECONDS = 8.0
"""How long a doubt waits for a person, who then asks the provider in another way."""
PATIENCE_SECONDS = 900.0
CLOCK_STEP_SECONDS = 30.0
DATABASE_CLOCK_RATE = 0.5
WORKERS_MOST, LIVES_MOST = 3, 4
FUSE_LEAST, FUSE_MOST = 20, 900
HAPPENS = [
    Trouble.MESSAGES, Trouble.MESSAGES, Trouble.PAUSES, Trouble.FREEZES, Trouble.CLOCK_STEPS,
]  # fmt: skip


@dataclass
class Outcome:
    seed: int
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


def simulate(seed: int, without: Collection[Trouble] = ()) -> Outcome:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    random.seed(seed)
    loop = VirtualLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    outcome = Outcome(seed)
    with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(_run(seed, Path(folder), outcome, without))
        except NothingLeft as error:
            outcome.stuck += 1
            outcome.findings.append(str(error))
        finally:
            for task in asyncio.all_tasks(loop):
                # Of processes that were killed: they wait for an answer that cannot come.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            asyncio.set_event_loop(None)
            loop.close()
    return outcome


def fewest_troubles(seed: int) -> list[Trouble]:
    """What a failing world does not need in order to fail: one left out after the other."""
    without: list[Trouble] = []
    for trouble in Trouble:
        if not simulate(seed, [*without, trouble]).holds:
            without.append(trouble)
    return without


async def _run(seed: int, folder: Path, outcome: Outcome, without: Collection[Trouble]) -> None:
    drawn = random.Random(f"{seed} scenario")
    world = World(seed, folder, _providers(drawn, seed), sees_processes=drawn.random() < 0.5)
    with world.wired():
        server = world.outrider(world.process("server"))
        story = _Story(world, server, drawn, without)
        await story.begin()
        lives = [
            [drawn.randint(FUSE_LEAST, FUSE_MOST) for _ in range(drawn.randint(0, LIVES_MOST))]
            for _ in range(drawn.randint(1, WORKERS_MOST))
        ]
        for number, fuses in enumerate(lives):
            fuses_lit = [] if Trouble.KILLS in without else fuses
            world.begin(world.keep_working(f"worker-{number}", fuses_lit))
        troubles = world.begin(story.trouble())
        await story.until_settled()
        if troubles.done():
            # A refusal that it does not expect is a finding of its own.
            troubles.result()
        await story.judge(outcome)
        await world.end()
    outcome.kills = world.kills
    outcome.findings += world.findings


def _providers(drawn: random.Random, seed: int) -> dict[str, Provider]:
    made = {}
    for kind in Kind:
        faults = ProviderFaults(
            turned_away_rate=drawn.choice([0.0, 0.0, 0.1]),
            rejected_rate=drawn.choice([0.0, 0.05]),
            call_lost_rate=drawn.choice([0.0, 0.1]),
            answer_lost_rate=drawn.choice([0.0, 0.1, 0.3]),
            slowest_seconds=drawn.choice([0.01, 0.2, 2.0]),
        )
        made[kind.value] = Provider(kind.value, kind, faults, random.Random(f"{seed} {kind}"))
    return made


class _Story:
    def __init__(
        self, world: World, server: Outrider, drawn: random.Random, without: Collection[Trouble]
    ) -> None:
        self._world = world
        self._server = server
        self._random = drawn
        self._without = without
        self._runs: list[RunId] = []
        self._intents: list[str] = []

    async def begin(self) -> None:
        await self._server.registry_follower.refresh()
        for number in range(self._random.randint(1, 2)):
            name = self._random.choice(list(self._world.providers))
            run_id = await launch(
                self._server,
                [message(Channel.SMS, name, body="Hi")],
                people(self._random.randint(3, 40), prefix=f"lead{number}"),
                batch_size=self._random.randint(2, 12),
            )
            self._runs.append(run_id)
        if self._random.random() < 0.5:
            rates = self._random.choice([(0.02, 0.0), (0.0, 0.02), (0.02, 0.02)])
            if Trouble.STORE_FAULTS not in self._without:
                self._world.store_faults = StoreFaults(*rates)
        if Trouble.PROVIDER_FAULTS in self._without:
            self._heal_providers()

    async def trouble(self) -> None:
        """Messages, controls, freezes and wrong clocks, at any time; then everything heals."""
        for number in range(self._random.randint(0, 12)):
            await asyncio.sleep(self._random.uniform(0.0, 3.0))
            happens = self._random.choice(HAPPENS)
            if happens in self._without:
                continue
            match happens:
                case Trouble.MESSAGES:
                    await self._submit(f"order-{number}")
                case Trouble.PAUSES:
                    await self._pause(self._random.choice(self._runs))
                case Trouble.FREEZES:
                    await self._freeze()
                case _:
                    self._step_a_clock()
        await asyncio.sleep(self._random.uniform(0.0, 10.0))
        self._world.store_faults.heal()
        self._heal_providers()

    def _heal_providers(self) -> None:
        for provider in self._world.providers.values():
            provider.faults.heal()

    async def _submit(self, intent_id: str) -> None:
        name = self._random.choice(list(self._world.providers))
        given = Submission(intent_id, name, {"to": "+447700900123", "message": "Hi"})
        self._intents.append(intent_id)
        await retried(lambda: self._server.submissions.submit(DEFAULT_SCOPE, given))

    async def _pause(self, run_id: RunId) -> None:
        campaign_id = await self._campaign_of(run_id)
        if not await self._control(campaign_id, Action.PAUSE):
            return
        self._world.paused.add(run_id)
        await asyncio.sleep(self._random.uniform(0.5, 8.0))
        self._world.paused.discard(run_id)
        await self._control(campaign_id, Action.RESUME)

    async def _campaign_of(self, run_id: RunId) -> CampaignId:
        run, _ = await retried(lambda: observe(self._server, run_id))
        return run.campaign_id

    async def _control(self, campaign_id: CampaignId, action: Action) -> bool:
        """Whether it is so now; a run that has ended refuses it."""
        control = Control(action, "simulation")
        try:
            await retried(
                lambda: self._server.phase_controller.control(
                    DEFAULT_SCOPE, campaign_id, LAUNCH, control
                )
            )
        except StoreUnavailable:
            raise
        except OutriderError:
            return False
        return True

    def _step_a_clock(self) -> None:
        """A machine's clock is set, forwards or back, or the database's."""
        step = self._random.uniform(-CLOCK_STEP_SECONDS, CLOCK_STEP_SECONDS)
        if self._random.random() < DATABASE_CLOCK_RATE:
            self._world.database_time.ahead_seconds = step
            return
        for process in self._a_worker():
            process.clock_ahead_seconds = step

    def _a_worker(self) -> list[Process]:
        living = [each for each in self._world.living() if each.worker_id != "server"]
        return [self._random.choice(living)] if living else []

    async def _freeze(self) -> None:
        for process in self._a_worker():
            await self._freeze_one(process)

    async def _freeze_one(self, process: Process) -> None:
        process.freeze()
        await asyncio.sleep(self._random.uniform(1.0, 15.0))
        process.resume()

    async def until_settled(self) -> None:
        """Until every run has ended and every intent; doubts nobody else settles are a person's."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_SECONDS
        while loop.time() < give_up_at:
            await asyncio.sleep(LOOK_SECONDS)
            await self._settle_by_hand()
            if self._is_settled():
                return

    def _is_settled(self) -> bool:
        ask = self._world.rows
        left = ask("SELECT 1 FROM channel_outbox WHERE status = 'queued' OR doubted_at IS NOT NULL")
        submitted = ask("SELECT 1 FROM channel_outbox WHERE origin = 'intent'")
        runs = ask("SELECT status FROM campaign_runs")
        have_ended = all(status in TERMINAL_RUNS for (status,) in runs)
        return have_ended and not left and len(submitted) == len(self._intents)

    async def _settle_by_hand(self) -> None:
        rows = self._world.rows(
            "SELECT o.id, o.submission_target FROM channel_outbox o"
            " JOIN doubt_checks c ON c.outbox_id = o.id"
            " WHERE o.doubted_at IS NOT NULL AND c.settles = 'person'"
            "   AND c.doubted_at < ?",
            time_to_text(moment(asyncio.get_running_loop().time() - PERSON_SECONDS)),
        )
        for outbox_id, name in rows:
            provider = self._world.providers[name]
            references = {each: ref for ref, each in provider.outbox_ids.items()}
            arrived = provider.deliveries[references.get(OutboxId(outbox_id), "")] > 0
            verdict = DoubtVerdict.SENT if arrived else DoubtVerdict.FAILED
            try:
                await self._server.doubt_resolver.resolve(
                    DEFAULT_SCOPE, OutboxId(outbox_id), verdict, "asked by phone", "person"
                )
            except OutriderError:
                # It was settled meanwhile, or the database is away.
                continue

    async def judge(self, outcome: Outcome) -> None:
        self._world.store_faults.heal()
        rows = self._world.rows("SELECT id, status, submission_target FROM channel_outbox")
        outcome.items = len(rows)
        if not self._is_settled():
            outcome.stuck += 1
            left = Counter(row[1] for row in rows)
            outcome.findings.append(f"not settled after {PATIENCE_SECONDS:.0f} s: {dict(left)}")
        status_of = {row[0]: row[1] for row in rows}
        for provider in self._world.providers.values():
            for reference, times in provider.deliveries.items():
                outbox_id = provider.outbox_ids[reference]
                if times > 1:
                    outcome.duplicates += 1
                    outcome.findings.append(f"{outbox_id} was delivered {times} times")
                if times and status_of.get(outbox_id) not in ("sent", "posted"):
                    outcome.lost += 1
                    said = status_of.get(outbox_id)
                    outcome.findings.append(
                        f"{outbox_id} was delivered, and the ledger says {said}"
                    )
            delivered = {provider.outbox_ids[ref] for ref, n in provider.deliveries.items() if n}
            for outbox_id, status, name in rows:
                if name == provider.name and status == "sent" and outbox_id not in delivered:
                    outcome.lost += 1
                    outcome.findings.append(f"{outbox_id} is sent, and was never delivered")
        for run_id in self._runs:
            await self._certify(run_id, outcome)
        outcome.digest = self._digest()

    def _digest(self) -> str:
        ledger = self._world.rows(
            "SELECT id, status, attempts, attempt_opened_at, attempt_closed_at, reason"
            " FROM channel_outbox ORDER BY id"
        )
        events = self._world.rows(
            "SELECT run_id, run_seq, type, payload FROM run_events ORDER BY 1, 2"
        )
        return sha256(repr((ledger, events)).encode()).hexdigest()

    async def _certify(self, run_id: RunId, outcome: Outcome) -> None:
        run, accounting = await observe(self._server, run_id)
        if not accounting.holds:
            outcome.findings.append(f"{run_id}: {accounting}")
        if run.status in TERMINAL_RUNS:
            certificate = await self._server.certifier.certify(DEFAULT_SCOPE, run_id)
            failing = [each.name for each in certificate.criteria if not each.holds]
            if failing:
                outcome.findings.append(f"{run_id}: the certificate does not hold: {failing}")

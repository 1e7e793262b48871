"""The engines: both pass the public suite, and the same campaign has the same history on both."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, RunId
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.gateways.sandbox import Outcome, Sandbox
from outrider.gateways.sandbox_files import ReceivedFile
from outrider.kernel.transactions import audit_trail, ledger_items, paging
from outrider.kernel.transactions.work import stalled
from outrider.ports.engine import Work, WorkKind
from outrider.settings import Settings
from outrider.testing.engine_suite import EngineBench, EngineConformance, engine_bench
from outrider.testing.engine_suite.bench import MAIL, MOST, SMS
from outrider.testing.engine_suite.controls import ControlConformance
from outrider.testing.engine_suite.lanes import LaneConformance, judged, of_one_lane, submit
from outrider.testing.engine_suite.runs import SHAKY, RunConformance, Shaky
from outrider.testing.launches import ACTOR, message, people
from tests.support.temporal_server import TemporalServer, on_temporal

PEOPLE = 120
BATCH = 25
REFUSALS = {3: 1, 7: 5, 8: 2, 9: 3, 10: 4}
"""How often each is refused, by the end of the number; five times is as often as one is tried."""
DROPPED = 11
UNWANTED = {"email": "gone999@example.test", "sms": "+447700000999"}
BY_ENGINE = {"engineRunRef", "startedBy", "worker"}
"""What an event says of who did it, and nothing of what was done."""


@pytest.fixture
async def local(database: str, tmp_path: Path) -> AsyncIterator[EngineBench]:
    async with engine_bench(Settings(database_url=database), tmp_path) as bench:
        yield bench


@pytest.fixture
async def temporal(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[EngineBench]:
    async with engine_bench(on_temporal(temporal_server, database), tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestLocal(EngineConformance):
    @pytest.fixture
    def bench(self, local: EngineBench) -> EngineBench:
        return local


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestTemporal(EngineConformance):
    @pytest.fixture
    def bench(self, temporal: EngineBench) -> EngineBench:
        return temporal

    async def test_a_run_is_one_workflow_for_good_and_a_lane_is_one_while_it_has_messages(
        self, bench: EngineBench
    ) -> None:
        engine = bench.outrider.engine
        assert isinstance(engine, TemporalEngine)
        client = await engine.client()

        async def ended(work: Work) -> str:
            """The execution's own id, once it has ended."""
            handle = client.get_workflow_handle(workflow_id(work))
            await handle.result()
            return (await handle.describe()).run_id

        run = Work(WorkKind.RUN, DEFAULT_TENANT, await bench.launched(5))
        first, second = of_one_lane(2)
        await submit(bench, first)
        now = bench.outrider.clock.now()
        waiting = await bench.outrider.store.read(stalled(now, MOST, now))
        (lane,) = [each.work for each in waiting if each.work.kind is WorkKind.LANE]
        async with bench.at_work():
            executions = {await ended(run), await ended(lane)}
            await engine.start(run)
            assert await ended(run) in executions
            await submit(bench, second)
            assert await judged(bench, first, second) == ["ACCEPTED", "ACCEPTED"]
            assert await ended(lane) not in executions


class Selection:
    """What asks the queue for work, for the other dialect."""

    test_one_execution = RunConformance.test_a_run_that_is_started_again_is_still_one_execution
    test_a_failing_handler = (
        RunConformance.test_a_handler_that_fails_uses_up_engine_attempts_and_no_logical_ones
    )
    test_a_resume = ControlConformance.test_a_resume_that_the_engine_was_never_told_of_is_found
    test_a_lane = (
        LaneConformance.test_a_message_that_comes_long_after_its_lane_was_idle_is_delivered
    )


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestLocalOnPostgres(Selection):
    @pytest.fixture
    def bench(self, local: EngineBench) -> EngineBench:
        return local


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestTemporalOnPostgres(Selection):
    @pytest.fixture
    def bench(self, temporal: EngineBench) -> EngineBench:
        return temporal


# The same history.


class ScriptedSandbox(Sandbox):
    """Misbehaves by recipient and by how often it was asked, so that no order of calls matters."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: Counter[str] = Counter()

    def decide(
        self,
        protocol: str,
        reference: str,
        to: str,
        files: Sequence[ReceivedFile] = (),
        *,
        dedupes: bool,
    ) -> Outcome:
        self._asked[reference] += 1
        number = int("".join(filter(str.isdigit, to))[-3:])
        outcome = Outcome.ACCEPTED
        if dedupes and reference in self.deliveries:
            outcome = Outcome.DUPLICATE_REFERENCE
        elif self._asked[reference] <= REFUSALS.get(number % 20, 0):
            outcome = Outcome.REJECTED
        elif dedupes and number % 20 == DROPPED:
            outcome = Outcome.DROPPED
        delivered = outcome in (Outcome.ACCEPTED, Outcome.DROPPED)
        self.record(protocol, reference, to, outcome, files, delivered=delivered)
        return outcome


def audience() -> list[Recipient]:
    """Some are only to be mailed; one has no address that is good, one is there twice."""
    mailed = people(PEOPLE // 4, message_id="mail", prefix="mailed")
    strange = [
        recipient(name, email=email, phone=phone, attributes='{"firstName": "Eve"}')
        for name, email, phone in (
            ("nowhere", "nobody", "12"),
            ("twice", "lead1@example.test", "+447700000001"),
            ("unwanted", UNWANTED["email"], UNWANTED["sms"]),
        )
    ]
    return [*people(PEOPLE), *mailed, *strange]


async def lived_through(bench: EngineBench) -> dict[str, Any]:
    """The campaign on this engine; all that is known of it afterwards, without times and ids."""
    bench.outrider.handlers[SHAKY] = Shaky()
    messages = (
        message(Channel.SMS, SMS, message_id="sms"), message(Channel.EMAIL, MAIL, message_id="mail")
    )  # fmt: skip
    definition = CampaignDefinition("same", (SHAKY, LAUNCH), messages, BATCH)
    campaign_id, _ = await bench.outrider.deployer.create(
        DEFAULT_SCOPE, definition, audience(), ACTOR
    )
    for channel, address in UNWANTED.items():
        keeper = bench.outrider.suppression_keeper
        await keeper.add(DEFAULT_SCOPE, channel, [address], OptOut("unsubscribed"), ACTOR)
    told: dict[str, Any] = {}
    async with bench.at_work():
        for phase in definition.phases:
            run_id = await bench.started(campaign_id, phase)
            accounting = await bench.ended(run_id)
            told[phase] = {"accounting": accounting, **await history_of(bench, run_id)}
    certificate = await bench.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    told["certificate"] = certificate.holds, certificate.run.status, certificate.criteria
    told["provider"] = bench.sandbox.outcomes
    return told


def said(item: ledger_items.Item, error: str | None) -> str | None:
    """The provider's own words without the item's reference, which is an id."""
    return error and error.replace(item.reference, "its reference")


async def history_of(bench: EngineBench, run_id: RunId) -> dict[str, Any]:
    store = bench.outrider.store
    items = await store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))
    attempts = await store.read(ledger_items.attempts_of_all([item.id for item in items]))
    audit = await store.read(audit_trail.audit_of_run(DEFAULT_SCOPE, run_id, paging.FIRST, MOST))
    members: dict[str, list[str]] = {}
    for item in items:
        members.setdefault(item.job_id or "", []).append(f"{item.channel} {item.recipient_id}")
    # A job is known by whom it was for.
    names = {job.id: min(members.get(job.id, [""])) for job in await bench.jobs(run_id)}
    steps: dict[str, list[Any]] = {name: [] for name in names.values()}
    of_run: list[Any] = []
    for event in await bench.events(run_id):
        payload = {name: each for name, each in event.payload.items() if name not in BY_ENGINE}
        facts = event.type, event.emitter, event.logical_attempt, event.engine_attempt, payload
        (steps[names[event.step_id]] if event.step_id else of_run).append(facts)
    return {
        "events": of_run,
        "steps": steps,
        "jobs": {
            names[job.id]: job._replace(id="", run_at=None, updated_at=job.updated_at.min)
            for job in await bench.jobs(run_id)
        },
        "items": sorted(
            (item.recipient_id, item.channel, item.address, item.submission_target, item.status,
             item.intent_status, item.exhausted_reason, item.reason, said(item, item.error),
             item.attempts, item.progress, item.maybe_received, item.doubted_at, item.waits_for,
             [(each.number, each.progress, each.outcome, each.reason, said(item, each.error))
              for each in attempts[item.id]])
            for item in items
        ),
        # How often a job was parked is a matter of timing; that it was is not.
        "audit": Counter(entry.event for entry in audit if entry.event != "job.parked"),
        "parked": "job.parked" in {entry.event for entry in audit},
    }  # fmt: skip


async def test_the_same_campaign_has_the_same_history_on_both_engines(
    temporal_server: TemporalServer, sqlite_template: Path, tmp_path: Path
) -> None:
    async def on(name: str) -> dict[str, Any]:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(sqlite_template, folder / "outrider.db")
        settings = Settings(database_url=(url := f"sqlite:///{folder}/outrider.db"))
        if name == "temporal":
            settings = on_temporal(temporal_server, url)
        async with engine_bench(settings, folder, ScriptedSandbox()) as bench:
            return await lived_through(bench)

    local, temporal = await asyncio.gather(on("local"), on("temporal"))
    for phase in (SHAKY, LAUNCH):
        for name, known in local[phase].items():
            assert temporal[phase][name] == known, f"{phase}: {name}"
    assert temporal["certificate"] == local["certificate"]
    assert temporal["provider"] == local["provider"]
    # And that it was as eventful as it was meant to be.
    assert local["certificate"][0]
    launch = local[LAUNCH]
    assert len(launch["jobs"]) > 8
    assert launch["parked"]
    assert launch["accounting"].failed > 0
    reasons = {item[7] for item in launch["items"] if item[4] == "skipped"}
    assert reasons == {"invalid_address", "duplicate_address", "suppressed"}
    assert {item[9] for item in launch["items"]} >= {0, 1, 2, 3, 4, 5}
    assert local["provider"].keys() >= {"accepted", "rejected", "dropped", "duplicate_reference"}

"""The same scene has the same history on every engine, without times and ids."""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.phases import Action
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.signals import Signal
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.gateways.sandbox import Outcome, Sandbox
from outrider.gateways.sandbox_files import ReceivedFile
from outrider.kernel.transactions import audit_trail, ledger_items, paging
from outrider.settings import Settings
from outrider.testing.engine_suite import EngineBench, engine_bench
from outrider.testing.engine_suite.bench import IN_AN_HOUR, MAIL, MOST, SMS
from outrider.testing.engine_suite.runs import SHAKY, Shaky
from outrider.testing.launches import ACTOR, message, people
from tests.support.conductor_server import on_conductor
from tests.support.temporal_server import on_temporal

PEOPLE = 120
BATCH = 25
REFUSALS = {3: 1, 7: 5, 8: 2, 9: 3, 10: 4}
"""How often each is refused, by the end of the number; five times is as often as one is tried."""
DROPPED = 11
UNWANTED = {"email": "gone999@example.test", "sms": "+447700000999"}
BY_ENGINE = {"engineRunRef", "startedBy", "worker"}
"""The part of an event that says who did it, without what was done."""
IN_OWN_TIME = {"job.parked", "run.sealed"}
"""Entries of the audit log that come or not, by how fast everything was."""
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OTHERS = pytest.mark.parametrize("other", ["temporal", "conductor"])


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
        request: bytes | None = None,  # noqa: ARG002
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
    """Run the campaign on this engine; returns everything known about it afterwards, without times
    and ids."""
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


def without_ids(told: object) -> object:
    return ID.sub("its id", told) if isinstance(told, str) else told


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
        payload = {
            name: names.get(str(each), without_ids(each))
            for name, each in event.payload.items()
            if name not in BY_ENGINE
        }
        facts = event.type, event.emitter, event.logical_attempt, event.engine_attempt, payload
        # A signal's own step belongs to no job.
        (steps[names[event.step_id]] if event.step_id in names else of_run).append(facts)
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
        "audit": Counter(entry.event for entry in audit if entry.event not in IN_OWN_TIME),
        "parked": "job.parked" in {entry.event for entry in audit},
    }  # fmt: skip


async def on_both(
    request: pytest.FixtureRequest,
    folder: Path,
    other: str,
    scene: Callable[[EngineBench], Awaitable[dict[str, Any]]],
    make_sandbox: Callable[[], Sandbox] = Sandbox,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the scene leaves on the local engine, and on the other one."""
    template: Path = request.getfixturevalue("sqlite_template")

    async def on(name: str) -> dict[str, Any]:
        place = folder / name
        place.mkdir()
        shutil.copy(template, place / "outrider.db")
        url = f"sqlite:///{place}/outrider.db"
        settings = Settings(database_url=url)
        if name == "temporal":
            settings = on_temporal(request.getfixturevalue("temporal_server"), url)
        elif name == "conductor":
            settings = on_conductor(request.getfixturevalue("conductor_url"), url)
        async with engine_bench(settings, place, make_sandbox()) as bench:
            return await scene(bench)

    async with asyncio.TaskGroup() as group:
        local, others = group.create_task(on("local")), group.create_task(on(other))
    return local.result(), others.result()


@OTHERS
async def test_the_same_campaign_has_the_same_history(
    request: pytest.FixtureRequest, tmp_path: Path, other: str
) -> None:
    local, found = await on_both(request, tmp_path, other, lived_through, ScriptedSandbox)
    for phase in (SHAKY, LAUNCH):
        for name, known in local[phase].items():
            assert found[phase][name] == known, f"{phase}: {name}"
    assert found["certificate"] == local["certificate"]
    assert found["provider"] == local["provider"]
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


async def steered(bench: EngineBench) -> dict[str, Any]:
    """Runs that were paused and resumed, stopped, and retried, one after the other."""
    found: dict[str, Any] = {}
    resumed, resumed_run = await bench.launched_and_paused(20)
    stopped, stopped_run = await bench.launched_and_paused(20)
    async with bench.at_work(IN_AN_HOUR):
        await bench.control(resumed, Action.RESUME)
        await bench.ended(resumed_run)
        await bench.control(stopped, Action.STOP)
        await bench.ended(stopped_run)
        bench.sandbox.faults.fail_rate = 1.0
        retried_run = await bench.launched(5)

        async def is_parked() -> bool:
            (job,) = await bench.jobs(retried_run)
            return job.status == "queued" and bench.sandbox.requests >= 25

        await bench.until(is_parked)
        bench.sandbox.faults.fail_rate = 0.0
        (job,) = await bench.jobs(retried_run)
        await bench.signal(retried_run, Signal.RETRY_STEP, job.id)
        await bench.ended(retried_run)
    for name, run_id in (
        ("resumed", resumed_run), ("stopped", stopped_run), ("retried", retried_run),
    ):  # fmt: skip
        found[name] = await history_of(bench, run_id)
    return found


@OTHERS
async def test_runs_that_were_paused_stopped_and_retried_have_the_same_history(
    request: pytest.FixtureRequest, tmp_path: Path, other: str
) -> None:
    local, found = await on_both(request, tmp_path, other, steered)
    for scene, history in local.items():
        for name, known in history.items():
            assert found[scene][name] == known, f"{scene}: {name}"
    types = {scene: [event[0] for event in history["events"]] for scene, history in local.items()}
    assert "RunResumed" in types["resumed"]
    assert types["stopped"][-1] == "RunCancelled"
    assert "SignalAccepted" in types["retried"]

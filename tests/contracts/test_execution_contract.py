"""Contract 000, the execution contract: its invariants, scenarios and printed query by number.

Whole runs go through the real kernel on both stores; nothing here looks at internals where the
ledger or a provider's own record can be asked instead. What the database refuses is next door.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import outrider
from outrider.bootstrap import Outrider
from outrider.domain.call_results import CallResult
from outrider.domain.campaigns import Message
from outrider.domain.evidence import LookedUp, LookUp
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, RunId
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.domain.times import rfc3339
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.files.call_journal import CallJournalFolder
from outrider.gateways.directory import Gateways
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.delivery.reservations import OpenAttempt, Reserver
from outrider.kernel.transactions import campaigns, run_jobs
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.work.lease_rescuer import LeaseRescuer
from outrider.limits.kernel import Limits
from outrider.ports.gateway import Gateway, LookUpQuestion, Reservation
from outrider.secrets.store import LocalSecrets
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite
from outrider.testing.clock import FakeClock
from outrider.testing.launches import launch, message, observe, people, target
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.raw_sql import Raw, raw_sql
from tests.support.whole_runs import items_of, opened, work_until, work_until_terminal

NOOP = target("noop.all", "noop", "noop://here")
SMS = message(Channel.SMS, "sms.all")
EMAIL = message(Channel.EMAIL, "smtp.all")
SOURCE = Path(outrider.__file__).parent

TRACE = """
SELECT 
  cr.id as run_id, cr.status as run_status,
  jq.id as job_id, jq.status as job_status, jq.attempts,
  co.id as outbox_id, co.status as outbox_status, co.provider_message_id
FROM campaign_runs cr
JOIN job_queue jq ON jq.run_id = cr.id
LEFT JOIN channel_outbox co ON co.run_id = cr.id
WHERE cr.campaign_id = 'CAMPAIGN_UUID'
ORDER BY cr.created_at DESC, jq.created_at, co.created_at;
"""  # noqa: W291 - exactly as the contract prints it


def noop_message() -> Message:
    return message(Channel.SMS, "noop.all")


def targets(sandbox: Sandbox) -> tuple[dict[str, object], ...]:
    return (
        target("sms.all", "sms", sandbox.http_url),
        target("smtp.all", "smtp", sandbox.smtp_url),
    )


def begun(attempt: OpenAttempt) -> OpenAttempt:
    """As by a worker that got so far."""
    attempt.may_begin = lambda _attempt: True
    return attempt


async def die_after_reserving(
    outrider: Outrider, target_name: str, *, count: int
) -> list[OpenAttempt]:
    """Be a worker that reserved its items and then fell over: its lease is over at once."""
    shop = Workshop(outrider.store)
    (job,) = await shop.claim(ONE, now=datetime.now(UTC), lease_seconds=0)
    asset = await outrider.store.read(campaigns.asset(job.asset_id))
    context = JobContext(job, asset, outrider.registry.contracts[target_name])
    drafts = [shop.draft(context, number) for number in range(count)]
    if asset.message.channel is Channel.EMAIL:
        drafts = [
            draft._replace(address=f"lead{number}@example.test", subject="An offer")
            for number, draft in enumerate(drafts)
        ]
    without_lease = replace(outrider.foundation, limits=replace(outrider.limits, lease_seconds=0))
    attempts = await Reserver(without_lease).reserve(context, drafts)
    assert not isinstance(attempts, Hold)
    return attempts


class Witness:
    """A gateway that looks into the database, as a stranger, at the moment of each call."""

    def __init__(self, inner: Gateway, raw: Raw, seen: list[tuple[object, ...]]) -> None:
        self._inner, self._raw, self._seen = inner, raw, seen

    @property
    def type(self) -> GatewayType:
        return self._inner.type

    @property
    def memory(self) -> ReferenceMemory:
        return self._inner.memory

    @property
    def window_items(self) -> int:
        return 2

    @property
    def concurrency(self) -> int:
        return 1

    async def call(self, reservation: Reservation) -> CallResult:
        key = self._raw.blob(bytes.fromhex(reservation.reference))
        self._seen += await self._raw.run(
            "SELECT status, attempts, attempt_opened_at IS NOT NULL, attempt_closed_at IS NULL"
            f" FROM channel_outbox WHERE idempotency_key = {key}"
        )
        return await self._inner.call(reservation)

    @property
    def looks_up(self) -> LookUp | None:
        return self._inner.looks_up

    @property
    def recipe(self) -> str:
        return self._inner.recipe

    @property
    def records(self) -> str:
        return self._inner.records

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        return await self._inner.look_up(questions)

    async def trim(self, connections: int) -> None:
        await self._inner.trim(connections)

    async def close(self) -> None:
        await self._inner.close()


class WitnessedGateways(Gateways):
    def __init__(self, raw: Raw) -> None:
        super().__init__(LocalSecrets())
        self.seen: list[tuple[object, ...]] = []
        self._raw = raw

    def gateway(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> Gateway:
        found = super().gateway(submission_target, gateway_type, gateway_url, workspace)
        return Witness(found, self._raw, self.seen)


# The line in the sand


async def test_a_campaign_is_launched_only_if_run_and_items_are_terminal_and_keys_unique(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await launch(outrider, [noop_message()], people(5))
        before = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
        assert not before.holds
        assert {each.name: each.holds for each in before.criteria} == {
            "run_terminal": False,
            "every_item_terminal": False,
            "duplicates_impossible": True,
            "accounting_adds_up": True,
        }
        await work_until_terminal(outrider, run_id)
        after = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
        assert after.holds, after.criteria


# 1. Definitions


async def test_definition_deploy_creates_a_queued_run_and_queued_jobs_of_their_types(
    database: str, tmp_path: Path
) -> None:
    smtp = target("smtp.all", "smtp", "smtp://127.0.0.1:1")
    async with opened(database, tmp_path, smtp) as outrider, raw_sql(database) as raw:
        await launch(outrider, [EMAIL], people(3), batch_size=2)
        runs = await raw.run("SELECT status, channel, started_at FROM campaign_runs")
        assert runs == [("queued", "email", None)]
        jobs = await raw.run("SELECT job_type, status, attempts FROM job_queue")
        assert jobs == [("email_send_batch", "queued", 0)] * 2
        assert await raw.value("SELECT count(*) FROM channel_outbox") == 0


# 2. Required invariants


async def test_invariant_1_outbox_insert_before_provider_call(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, NOOP) as outrider, raw_sql(database) as raw:
        outrider.gateways = gateways = WitnessedGateways(raw)
        run_id = await launch(outrider, [noop_message()], people(5))
        await work_until_terminal(outrider, run_id)
        await gateways.close()
        # Another connection saw each row committed, queued and open, when its call was made.
        # SQLite's booleans are the numbers 0 and 1, which are equal to False and True.
        assert gateways.seen == [("queued", 1, True, True)] * 5


async def test_invariant_1_a_key_that_is_reserved_already_is_not_called_again(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [EMAIL], people(3))
        await die_after_reserving(outrider, "smtp.all", count=2)
        counted = await work_until(outrider, run_id, lambda seen: seen.sent == 1)
        assert counted.in_doubt == 2
        assert sandbox.requests == 1


async def test_invariant_2_every_key_is_the_contracts_formula(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await launch(outrider, [noop_message()], people(4))
        await work_until_terminal(outrider, run_id)
        run, _ = await observe(outrider, run_id)
        (asset,) = await outrider.store.read(campaigns.assets_of(run.campaign_id))
        for lead_id, item in (await items_of(outrider, run_id)).items():
            text = f"{run_id}|{lead_id}|{asset.id}|{rfc3339(run.scheduled_for)}"
            assert item.reference == hashlib.sha256(text.encode()).hexdigest()


async def test_invariant_3_a_job_is_not_completed_while_an_item_is_not_terminal(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [EMAIL], people(2))
        await die_after_reserving(outrider, "smtp.all", count=1)
        await work_until(outrider, run_id, lambda seen: seen.sent == 1)
        counts = await outrider.store.read(run_jobs.job_counts(run_id))
        assert {count.status for count in counts} <= {"queued", "locked"}
        (doubt,) = [each async for each in outrider.doubt_resolver.doubts(DEFAULT_SCOPE)]
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, doubt.id, DoubtVerdict.SENT, "the provider has it", "test"
        )
        await work_until_terminal(outrider, run_id)
        (count,) = await outrider.store.read(run_jobs.job_counts(run_id))
        assert (count.status, count.outcome) == ("completed", "completed")


@pytest.mark.parametrize(
    ("leads", "run_status", "outcomes"),
    [
        (["ok", "ok"], "completed", {"completed"}),
        (["ok", "reject"], "partial", {"completed", "failed"}),
        (["reject", "reject"], "failed", {"failed"}),
    ],
)
async def test_invariant_4_a_runs_status_is_computed_from_its_jobs_outcomes(
    database: str, tmp_path: Path, leads: list[str], run_status: str, outcomes: set[str]
) -> None:
    async with Sandbox() as sandbox:
        refusing = target(
            "smtp.all", "smtp", sandbox.smtp_url, terminal_outcomes=["invalid_recipient"]
        )
        async with opened(database, tmp_path, refusing) as outrider:
            audience = [
                person
                for number, prefix in enumerate(leads)
                for person in people(1, prefix=f"{prefix}{number}")
            ]
            run_id = await launch(outrider, [EMAIL], audience, batch_size=1)
            assert (await observe(outrider, run_id))[0].status == "queued"
            await work_until_terminal(outrider, run_id)
            assert (await observe(outrider, run_id))[0].status == run_status
            counts = await outrider.store.read(run_jobs.job_counts(run_id))
            assert {count.outcome for count in counts} == outcomes


async def test_invariant_4_a_run_is_running_once_a_job_is_locked(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await launch(outrider, [noop_message()], people(2), batch_size=1)
        await Workshop(outrider.store).claim(now=datetime.now(UTC))
        run, _ = await observe(outrider, run_id)
        assert run.status == "running"
        assert run.started_at is not None


# 5. Never do


def test_never_update_campaign_runs_from_deploying() -> None:
    writers = {
        path.name: re.findall(r'ask\(\s*"(start_run|finish_run|insert_run)"', path.read_text())
        for path in (SOURCE / "kernel").rglob("*.py")
    }
    assert {name: found for name, found in writers.items() if found} == {
        "deployment.py": ["insert_run"],
        "claims.py": ["start_run"],
        "settlement.py": ["finish_run"],
    }
    for statements in (sqlite.STATEMENTS, postgres.STATEMENTS):
        updated = [
            name
            for name, each in statements.items()
            if re.search(r"\bUPDATE campaign_runs SET status\b", each.sql)
        ]
        # Deploying takes its first event's sequence from the row, and leaves its status alone.
        assert sorted(updated) == ["finish_run", "start_run"]


def test_never_complete_a_job_without_counting_its_items() -> None:
    askers = [
        path for path in (SOURCE / "kernel").rglob("*.py") if '"finish_job"' in path.read_text()
    ]
    assert [path.name for path in askers] == ["settlement.py"]
    text = askers[0].read_text()
    assert text.index('"tally_job"') < text.index('"finish_job"')


async def test_never_use_another_key_on_a_later_attempt(database: str, tmp_path: Path) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [SMS], people(3))
        reserved = await die_after_reserving(outrider, "sms.all", count=3)
        await work_until_terminal(outrider, run_id)
        assert set(sandbox.deliveries) == {attempt.reference for attempt in reserved}
        items = await items_of(outrider, run_id)
        assert {item.attempts for item in items.values()} == {1}
        assert {item.reference for item in items.values()} == set(sandbox.deliveries)


# 9. Recovery scenarios


async def test_recovery_crash_after_outbox_insert_before_provider_call(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [EMAIL], people(2))
        await die_after_reserving(outrider, "smtp.all", count=2)
        await work_until(outrider, run_id, lambda seen: seen.in_doubt == 2)
        assert sandbox.requests == 0
        assert {item.status for item in (await items_of(outrider, run_id)).values()} == {"queued"}
        # The provider's log is checked: it has none of them, so they may be sent after all.
        settled = await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=run_id, received=_received(sandbox),
            absent=DoubtVerdict.RESUBMIT, evidence="the provider's log", actor="test",
        )  # fmt: skip
        assert settled.resubmitted == 2
        assert (await work_until_terminal(outrider, run_id)).sent == 2
        assert sandbox.received()["duplicates"] == 0
        assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds


async def test_recovery_crash_after_provider_call_before_outbox_update(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [EMAIL], people(2))
        attempts = await die_after_reserving(outrider, "smtp.all", count=2)
        gateway = outrider.gateways.gateway("target", "smtp", sandbox.smtp_url)
        await gateway.call(begun(attempts[0]))
        await work_until(outrider, run_id, lambda seen: seen.in_doubt == 2)
        assert sandbox.requests == 1
        settled = await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=run_id, received=_received(sandbox),
            absent=DoubtVerdict.FAILED, evidence="the provider's log", actor="test",
        )  # fmt: skip
        assert (settled.sent, settled.failed, settled.left) == (1, 1, 0)
        counted = await work_until_terminal(outrider, run_id)
        assert (counted.sent, counted.failed) == (1, 1)
        assert sandbox.requests == 1


async def test_recovery_where_the_gateway_dedupes_the_same_reference_is_resubmitted(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox, opened(database, tmp_path, *targets(sandbox)) as outrider:
        run_id = await launch(outrider, [SMS], people(2))
        attempts = await die_after_reserving(outrider, "sms.all", count=2)
        gateway = outrider.gateways.gateway("target", "sms", sandbox.http_url)
        await gateway.call(begun(attempts[0]))
        counted = await work_until_terminal(outrider, run_id)
        assert (counted.sent, counted.in_doubt) == (2, 0)
        assert sandbox.outcomes == {"accepted": 2, "duplicate_reference": 1}
        assert sandbox.received()["duplicates"] == 0


async def test_recovery_stale_lock_is_queued_again_after_five_minutes_with_an_attempt_more(
    database: str, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with (
        opened(database, tmp_path, NOOP, clock=clock) as outrider,
        raw_sql(database) as raw,
    ):
        await launch(outrider, [noop_message()], people(1))
        shop = Workshop(outrider.store)
        await shop.claim(now=clock.now(), lease_seconds=86_400)
        rescuer = LeaseRescuer(
            replace(outrider.foundation, clock=clock, limits=Limits()),
            CallJournalFolder(tmp_path / "spool"),
            ONE,
            is_dead=lambda _worker: False,
        )
        clock.advance(299)
        assert await rescuer.rescue_once() == 0
        assert await raw.run("SELECT status, attempts FROM job_queue") == [("locked", 0)]
        clock.advance(2)
        assert await rescuer.rescue_once() == 1
        assert await raw.run("SELECT status, attempts FROM job_queue") == [("queued", 1)]


# 10. Audit trail


async def test_audit_trail_the_printed_trace_query_runs_as_it_stands(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, *targets(sandbox)) as outrider,
        raw_sql(database) as raw,
    ):
        run_id = await launch(outrider, [SMS], people(3))
        campaign_id = (await observe(outrider, run_id))[0].campaign_id
        before = await raw.run(TRACE.replace("CAMPAIGN_UUID", campaign_id))
        assert [(row[1], row[3], row[5]) for row in before] == [("queued", "queued", None)]
        await work_until_terminal(outrider, run_id)
        rows = await raw.run(TRACE.replace("CAMPAIGN_UUID", campaign_id))
        items = await items_of(outrider, run_id)
        assert {str(row[0]) for row in rows} == {run_id}
        assert {(row[1], row[3], row[4], row[6]) for row in rows} == {
            ("completed", "completed", 0, "sent")
        }
        assert {(str(row[5]), row[7]) for row in rows} == {
            (item.id, item.provider_message_id) for item in items.values()
        }


@pytest.mark.parametrize(
    ("leads", "batch_size", "expected"),
    [
        (["ok", "ok"], 1, {("completed", "completed", "sent")}),
        (["reject", "reject"], 1, {("failed", "failed", "failed")}),
        (["reject", "reject"], 2, {("failed", "failed", "failed")}),
        (
            ["ok", "reject"], 2,
            {("partial", "completed", "sent"), ("partial", "completed", "failed")},
        ),
    ],
)  # fmt: skip
async def test_audit_trail_the_trace_querys_columns_agree_with_each_other(
    database: str,
    tmp_path: Path,
    leads: list[str],
    batch_size: int,
    expected: set[tuple[str, str, str]],
) -> None:
    """S6: no job whose items all failed is completed; docs/explanation/ledger.md has the rest."""
    async with Sandbox() as sandbox, raw_sql(database) as raw:
        refusing = target(
            "smtp.all", "smtp", sandbox.smtp_url, terminal_outcomes=["invalid_recipient"]
        )
        async with opened(database, tmp_path, refusing) as outrider:
            audience = [
                person
                for number, prefix in enumerate(leads)
                for person in people(1, prefix=f"{prefix}{number}")
            ]
            run_id = await launch(outrider, [EMAIL], audience, batch_size=batch_size)
            await work_until_terminal(outrider, run_id)
            campaign_id = (await observe(outrider, run_id))[0].campaign_id
        rows = await raw.run(TRACE.replace("CAMPAIGN_UUID", campaign_id))
        assert {(row[1], row[3], row[6]) for row in rows} == expected


async def test_audit_trail_every_step_of_an_execution_is_in_the_log(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await launch(outrider, [noop_message()], people(1))
        await work_until_terminal(outrider, run_id)
        assert await _events(outrider, run_id) == {
            "run.deployed", "run.started", "job.completed", "run.finished",
        }  # fmt: skip


def _received(sandbox: Sandbox) -> set[IdempotencyKey]:
    """The provider's own record of the references it has."""
    return {IdempotencyKey(reference) for reference in sandbox.deliveries}


async def _events(outrider: Outrider, run_id: RunId) -> set[str]:
    return set(await Workshop(outrider.store).events(run_id))

"""Who remembers a reference, without a crash: silences, proofs, verdicts, certificates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.bootstrap import Outrider
from outrider.documents.target_settings import setting_warnings
from outrider.domain.call_results import Progress
from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.reference_memory import (
    DURATION_MAX_SECONDS,
    FOR_GOOD,
    IN_FLIGHT,
    NEVER,
    ReferenceMemory,
    memory_of,
)
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import Contract, OneShot, Verdict
from outrider.engines.local import local_reference
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.receipts.doubt_resolver import DoubtsOf
from outrider.kernel.reports.certifier import Certificate
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import closing, ledger_items, reserving, submissions
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent
from outrider.settings import TargetSettings
from outrider.testing.claims import claim_any
from outrider.testing.clock import FakeClock
from outrider.testing.launches import launch, message, people, target
from outrider.testing.store_suite.workshop import ACCEPTED, WORD, Workshop
from tests.support.intents import ended, until
from tests.support.raw_sql import raw_sql
from tests.support.remembering_gateway import RememberingGateway
from tests.support.whole_runs import opened, work_until_terminal, working

IMPATIENT_SECONDS = 0.2
"""How long a call waits for its answer here."""
SLOW_SECONDS = 1.0
LEASE = timedelta(seconds=30)
NOBODY = "http://127.0.0.1:1"
SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)
PAYLOAD = {"to": "+447700900123", "message": "Hello"}


@asynccontextmanager
async def submitted(
    database: str,
    folder: Path,
    gateway: RememberingGateway,
    declared: str | None,
    **terms: Any,
) -> AsyncIterator[Outrider]:
    """A worker, and one intent at a target whose calls wait for a short while only."""
    settings = TargetSettings(
        timeout_seconds=IMPATIENT_SECONDS,
        retry_first_seconds=0.05,
        remembers_references=declared,
    )
    entry = target("sms", "sms", gateway.url, **terms)
    async with (
        opened(database, folder, entry, targets={"sms": settings}) as outrider,
        working(outrider),
    ):
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission("a", "sms", PAYLOAD))
        yield outrider


async def doubted(outrider: Outrider) -> tuple[Intent, list[Attempt]]:
    return await until(outrider, "a", lambda intent: intent.doubted_at is not None)


@pytest.mark.parametrize(
    ("memory", "declared"), [(NEVER, None), (NEVER, "never"), (IN_FLIGHT, "in_flight")]
)
async def test_a_silence_is_in_doubt_and_not_repeated_unless_a_memory_is_declared(
    database: str, tmp_path: Path, memory: ReferenceMemory, declared: str | None
) -> None:
    """B3, S1: the call was slow and then failed; nothing says that anything was sent."""
    async with (
        RememberingGateway(memory, seconds=SLOW_SECONDS, fails=True) as gateway,
        submitted(database, tmp_path, gateway, declared) as outrider,
    ):
        intent, attempts = await doubted(outrider)
        assert (intent.status, intent.item_status) == ("PENDING", "queued")
        assert [(each.number, each.outcome) for each in attempts] == [(1, None)]
        assert gateway.requests == 1
        assert gateway.deliveries.total() == 0


async def test_a_duplicate_within_the_declared_memory_is_a_proof_that_stays_visible(
    database: str, tmp_path: Path
) -> None:
    """S1: accepted, and everywhere it says why."""
    async with (
        RememberingGateway(FOR_GOOD, seconds=SLOW_SECONDS) as gateway,
        submitted(
            database, tmp_path, gateway, "for_good", terminal_outcomes=["duplicate_reference"]
        ) as outrider,
    ):
        intent, attempts = await until(outrider, "a", ended)
        assert (intent.status, intent.final_outcome) == ("ACCEPTED", "accepted")
        # A silence with its worker alive is an attempt that ended, so the next one is counted.
        assert [(each.number, each.repeat, each.reason) for each in attempts] == [
            (1, 0, "timeout"),
            (2, 0, "duplicate_reference"),
        ]
        item = await outrider.store.read(ledger_items.item(DEFAULT_SCOPE, intent.outbox_id))
        assert item.reason == "duplicate_reference"
        assert "proves that the earlier call arrived" in explain_item(item, attempts)[-1]
        assert gateway.deliveries.total() == 1


async def test_a_duplicate_without_a_silence_before_it_is_what_the_contract_makes_of_it(
    database: str, tmp_path: Path
) -> None:
    """S1: here the contract lists it as terminal, and a person said that the call never arrived."""
    async with (
        RememberingGateway(FOR_GOOD, seconds=SLOW_SECONDS) as gateway,
        submitted(
            database, tmp_path, gateway, None, terminal_outcomes=["duplicate_reference"]
        ) as outrider,
    ):
        intent, _ = await doubted(outrider)
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, intent.outbox_id, DoubtVerdict.RESUBMIT, "a guess", "test"
        )
        intent, attempts = await until(outrider, "a", ended)
        assert (intent.status, intent.final_outcome) == ("REJECTED", "duplicate_reference")
        assert [(each.number, each.repeat, each.outcome) for each in attempts] == [
            (1, 0, "disproved"),
            (1, 1, "rejected"),
        ]


async def test_an_exhausted_item_in_doubt_takes_no_resubmission(
    database: str, tmp_path: Path
) -> None:
    """S7: EXHAUSTED is final; what evidence says may settle it, and nobody is called again."""
    async with (
        RememberingGateway(FOR_GOOD, seconds=SLOW_SECONDS) as gateway,
        submitted(database, tmp_path, gateway, "for_good", policy="one_shot") as outrider,
    ):
        intent, _ = await doubted(outrider)
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "one_shot")
        resolver = outrider.doubt_resolver
        [doubt] = [each async for each in resolver.doubts(DEFAULT_SCOPE)]
        assert doubt.is_exhausted
        with pytest.raises(Conflict, match="is exhausted") as refused:
            await resolver.resolve(
                DEFAULT_SCOPE, doubt.id, DoubtVerdict.RESUBMIT, "their log", "test"
            )
        assert "`outrider intent resubmit`" in (refused.value.hint or "")
        with pytest.raises(Conflict, match="is exhausted"):
            await resolver.resolve_all(
                DEFAULT_SCOPE, DoubtsOf(), DoubtVerdict.RESUBMIT, "their log", "test"
            )
        item = await outrider.store.read(ledger_items.item(DEFAULT_SCOPE, doubt.id))
        assert "--verdict sent|failed " in explain_item(item, [])[-1]
        settled = await resolver.reconcile(
            DEFAULT_SCOPE, run_id=None, received=set(), absent=DoubtVerdict.RESUBMIT,
            evidence="their log", actor="test",
        )  # fmt: skip
        assert (settled.failed, settled.resubmitted, settled.left) == (1, 0, 0)
        intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "a")
        assert (intent.status, intent.item_status, intent.attempts) == ("EXHAUSTED", "failed", 1)
        assert gateway.requests == 1


async def test_an_item_that_may_have_arrived_is_not_called_again_after_its_deadline(
    database: str, tmp_path: Path
) -> None:
    """S7: it is exhausted by the clock and, because a silence came before, in doubt."""
    clock = FakeClock()
    entry = target("sms", "sms", NOBODY, policy="deadline", maxAcceptanceSeconds=30)
    async with opened(database, tmp_path, entry, clock=clock) as outrider:
        store, began = outrider.store, clock.now()
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission("a", "sms", PAYLOAD))
        claimer = Claimer(WorkerId("one"), began + LEASE, local_reference, outrider.ids)
        [lane] = await claim_any(store, claimer, 10, began)
        assert isinstance(lane, ClaimedLane)
        [row] = await store.read(submissions.due(lane, 10, began))
        await store.write(reserving.reopen(lane, [row.id], None, WORD, began + LEASE, began))
        silence = Verdict(
            ItemStatus.QUEUED, IntentStatus.PENDING, Progress.SENT_NO_ANSWER, "timeout",
            next_attempt_at=began + timedelta(seconds=29), maybe_received=True,
        )  # fmt: skip
        await store.write(
            closing.close([ClosedAttempt(row.id, 1, lane.fence, began, silence)], began)
        )
        clock.advance(29)
        assert [each.id for each in await store.read(submissions.due(lane, 10, clock.now()))]
        clock.advance(1)
        assert await store.read(submissions.due(lane, 10, clock.now())) == []
        assert await outrider.deadline_expirer.expire() == 1
        intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "a")
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "deadline_exceeded")
        assert (intent.item_status, intent.doubted_at) == ("queued", clock.now())
        assert [each.number for each in attempts] == [1]
        # Nor is it called again to find out, which would be another attempt.
        found = await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=None, received=None, absent=None, evidence="", actor="test"
        )
        assert (found.asked_again, found.left) == (0, 1)


# The certificate.


async def certified(outrider: Outrider, run_id: RunId) -> tuple[Certificate, str]:
    proof = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    [told] = [each for each in proof.criteria if each.name == "duplicates_impossible"]
    return proof, told.detail


async def test_without_repeats_the_certificate_rests_on_the_ledger_alone(
    database: str, tmp_path: Path
) -> None:
    """B3: on whose word nothing was doubled."""
    async with (
        RememberingGateway(NEVER) as gateway,
        opened(database, tmp_path, target("sms", "sms", gateway.url), targets={}) as outrider,
    ):
        run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(3))
        await work_until_terminal(outrider, run_id)
        proof, detail = await certified(outrider, run_id)
        assert proof.holds
        assert "no call was repeated, so the ledger alone proves it" in detail
        nothing = {"remembered": [], "undeclared": [], "disproved": 0}
        assert proof.as_document()["repeats"] == nothing


@pytest.mark.parametrize("declared", [None, "in_flight", "24h"])
async def test_repeats_of_an_older_version_are_proven_by_a_declaration_and_by_nothing_else(
    database: str, tmp_path: Path, declared: str | None
) -> None:
    """B3: that version assumed a memory, and wrote down no word of anybody's."""
    settings = {"sms.realtime": TargetSettings(remembers_references=declared)}
    entry = target("sms.realtime", "sms", NOBODY)
    async with (
        opened(database, tmp_path, entry, targets=settings) as outrider,
        raw_sql(database) as raw,
    ):
        shop = Workshop(outrider.store)
        run_id = await shop.launch(1)
        context = await shop.claim_one()
        [item_id] = await shop.open(context, 0)
        await raw.run(
            "INSERT INTO attempt_history (outbox_id, attempt, fence, opened_at, closed_at,"
            " progress, outcome, reason) SELECT id, 1, 1, attempt_opened_at, attempt_opened_at,"
            " 'SENT_NO_ANSWER', 'abandoned', 'worker_lost' FROM channel_outbox"
        )
        await raw.run("UPDATE channel_outbox SET attempts = 2")
        await shop.close(context, (item_id, ACCEPTED), attempt=2)
        await shop.settle(context)
        proof, detail = await certified(outrider, run_id)
        if declared == "24h":
            assert proof.holds
            assert "1 items were called again as sms.realtime allows" in detail
        else:
            assert not proof.holds
            assert "sms.realtime, which is not declared to remember references" in detail


# Settings.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800), ("60s", 60)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    memory = ReferenceMemory.parse(text)
    assert memory.seconds == seconds
    assert ReferenceMemory.parse(str(memory)) == memory


@pytest.mark.parametrize(
    "text", ["", "always", "24", "24 h", "0h", "-1h", "1.5h", "1w", "99999d", "for good", "1H"]
)
def test_an_invalid_memory_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="say never, in_flight, for_good, or a duration"):
        TargetSettings(remembers_references=text)


memories = st.sampled_from([NEVER, IN_FLIGHT, FOR_GOOD]) | st.builds(
    lambda seconds: ReferenceMemory(float(seconds)), st.integers(1, DURATION_MAX_SECONDS)
)


@given(memories, st.none() | memories)
def test_a_declaration_never_promises_more_than_a_provider_documents(
    documented: ReferenceMemory, declared: ReferenceMemory | None
) -> None:
    relied_on = memory_of(documented, declared)
    assert relied_on <= documented
    assert declared is None or relied_on <= declared
    assert memory_of(None, declared) == (declared or NEVER)
    assert ReferenceMemory.parse(str(documented)) == documented


def test_a_memory_ends_on_the_second_and_a_permanent_one_never_does() -> None:
    hour = ReferenceMemory.parse("1h")
    assert hour.holds(SUBMITTED, SUBMITTED + timedelta(seconds=3_599.9))
    assert not hour.holds(SUBMITTED, SUBMITTED + timedelta(hours=1))
    assert FOR_GOOD.holds(SUBMITTED, SUBMITTED + timedelta(days=36_500))
    assert not IN_FLIGHT.holds(SUBMITTED, SUBMITTED)


def test_check_warns_of_a_declaration_that_is_not_relied_on() -> None:
    contract = Contract("mail", "resend", "http://x", "batch", OneShot(), frozenset())
    for declared, warned in (("for_good", True), ("24h", False), ("1h", False)):
        settings = {"mail": TargetSettings(remembers_references=declared)}
        found = setting_warnings({"mail": contract}, settings, GATEWAY_TYPES)
        assert bool(found) is warned
        assert all(each.path == "targets.mail.remembers_references" for each in found)

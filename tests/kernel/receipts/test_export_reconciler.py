"""A provider's export settles what it answers, and a wrong one settles nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.provider_exports import ExportRow, Meaning
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.receipts.export_reconciler import AbsenceRefused, ExportPlan, ExportTerms
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import audit_trail, doubt_lists
from outrider.kernel.transactions.doubt_lists import ALL_DOUBTS, ListedDoubt
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.testing.launches import target
from tests.support.eventually import eventually
from tests.support.whole_runs import opened, working

MOST = 100


@asynccontextmanager
async def doubting(
    database: str, tmp_path: Path, count: int = 3
) -> AsyncIterator[tuple[Outrider, list[ListedDoubt]]]:
    """Texts that the gateway took without an answer, so that all of them are in doubt."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        texts = target("texts", "sms", sandbox.http_url, maxAttempts=5)
        async with opened(database, tmp_path, texts, targets={}) as outrider:
            for number in range(count):
                payload = {"to": f"+44770090012{number}", "message": "Hi"}
                given = Submission(f"order-{number}", "texts", payload)
                await outrider.submissions.submit(DEFAULT_SCOPE, given)
            async with working(outrider):

                async def all_doubted() -> bool:
                    return len(await listed(outrider)) == count

                await eventually(all_doubted)
            found = await listed(outrider)
            yield outrider, sorted(found, key=lambda each: each.recipient_id)


async def listed(outrider: Outrider, scope: Scope = DEFAULT_SCOPE) -> list[ListedDoubt]:
    return await outrider.store.read(doubt_lists.page(scope, ALL_DOUBTS, FIRST, MOST))


def terms(**changes: Any) -> ExportTerms:
    return ExportTerms("texts", "export.csv", "0" * 64, **changes)


async def planned(
    outrider: Outrider, given: ExportTerms, *rows: ExportRow, unreadable: int = 0
) -> ExportPlan:
    windows: Sequence[Sequence[ExportRow]] = [rows[:1], rows[1:]]
    return await outrider.export_reconciler.plan(
        DEFAULT_SCOPE, given, windows, unreadable=unreadable
    )


def verdicts(plan: ExportPlan) -> dict[str, DoubtVerdict]:
    return {each.doubt.recipient_id: each.verdict for each in plan.verdicts}


def called_at(doubt: ListedDoubt) -> datetime:
    assert doubt.opened_at is not None
    return doubt.opened_at


async def test_rows_settle_their_items_with_the_row_in_the_audit_log(
    database: str, tmp_path: Path
) -> None:
    async with doubting(database, tmp_path) as (outrider, doubts):
        rows = (
            ExportRow(2, doubts[0].reference, "SM1", status="Delivered"),
            ExportRow(3, doubts[1].reference, "SM2", status="rejected"),
            ExportRow(4, "f" * 64, status="delivered"),
        )
        given = terms()
        plan = await planned(outrider, given, *rows)
        assert verdicts(plan) == {"order-0": DoubtVerdict.SENT, "order-1": DoubtVerdict.FAILED}
        assert (plan.left, plan.unknown_rows, plan.unknown_sample) == (1, 1, [rows[2]])
        assert len(await listed(outrider)) == 3, "a plan changes nothing"
        resolved = await outrider.export_reconciler.apply(DEFAULT_SCOPE, given, plan, "ada")
        assert resolved == {
            DoubtVerdict.SENT: 1, DoubtVerdict.FAILED: 1, DoubtVerdict.RESUBMIT: 0
        }  # fmt: skip
        assert [each.recipient_id for each in await listed(outrider)] == ["order-2"]
        again = await outrider.export_reconciler.apply(DEFAULT_SCOPE, given, plan, "ada")
        assert sum(again.values()) == 0, "what is settled stays as it is"
        entries = await outrider.store.read(
            audit_trail.page(DEFAULT_SCOPE, None, None, FIRST, MOST)
        )
    [detail] = [each.detail for each in entries if each.outbox_id == doubts[0].id]
    assert '"line":2' in detail.replace(" ", "")
    assert '"matchedBy":"reference"' in detail.replace(" ", "")
    assert '"providerMessageId":"SM1"' in detail.replace(" ", "")


async def test_a_row_without_a_reference_is_matched_by_recipient_and_time(
    database: str, tmp_path: Path
) -> None:
    async with doubting(database, tmp_path) as (outrider, doubts):
        near = called_at(doubts[0]) + timedelta(seconds=5)
        far = called_at(doubts[1]) + timedelta(hours=5)
        plan = await planned(
            outrider,
            terms(absent=DoubtVerdict.RESUBMIT),
            ExportRow(2, None, "SM1", "44 7700 900120", near, "sent"),
            ExportRow(3, None, "SM2", "+447700900121", far, "sent"),
        )
    assert verdicts(plan) == {"order-0": DoubtVerdict.SENT}
    # Recipient and time alone do not prove that this is the target's own export.
    assert plan.absence_refused is AbsenceRefused.NOTHING_MATCHED


async def test_a_message_missing_from_a_complete_export_never_arrived(
    database: str, tmp_path: Path
) -> None:
    async with doubting(database, tmp_path) as (outrider, doubts):
        row = ExportRow(2, doubts[0].reference, time=called_at(doubts[0]), status="sent")
        given = terms(absent=DoubtVerdict.RESUBMIT)
        plan = await planned(outrider, given, row)
        assert verdicts(plan) == {
            "order-0": DoubtVerdict.SENT,
            "order-1": DoubtVerdict.RESUBMIT,
            "order-2": DoubtVerdict.RESUBMIT,
        }
        early = row._replace(time=called_at(doubts[0]) - timedelta(days=1))
        uncovered = await planned(outrider, given, early)
        assert verdicts(uncovered) == {"order-0": DoubtVerdict.SENT}
        assert uncovered.not_covered == 2


@pytest.mark.parametrize(
    ("rows", "unreadable", "refused"),
    [
        ((ExportRow(2, "somebody-elses", status="sent"),), 0, AbsenceRefused.NOTHING_MATCHED),
        ((), 0, AbsenceRefused.NOTHING_MATCHED),
        ((), 1, AbsenceRefused.UNREADABLE_ROWS),
    ],
)
async def test_a_wrong_export_or_mapping_settles_nothing(
    database: str,
    tmp_path: Path,
    rows: Sequence[ExportRow],
    unreadable: int,
    refused: AbsenceRefused,
) -> None:
    async with doubting(database, tmp_path, 1) as (outrider, _):
        plan = await planned(
            outrider, terms(absent=DoubtVerdict.RESUBMIT), *rows, unreadable=unreadable
        )
    assert (plan.verdicts, plan.left, plan.absence_refused) == ([], 1, refused)


async def test_the_row_that_says_it_was_sent_counts_and_words_can_be_given_a_meaning(
    database: str, tmp_path: Path
) -> None:
    async with doubting(database, tmp_path, 2) as (outrider, doubts):
        first, second = (doubt.reference for doubt in doubts)
        plan = await planned(
            outrider,
            terms(meanings={"hold": Meaning.FAILED}),
            ExportRow(2, first, status="failed"),
            ExportRow(3, first, status="delivered"),
            ExportRow(4, second, status="Hold"),
        )
        assert verdicts(plan) == {"order-0": DoubtVerdict.SENT, "order-1": DoubtVerdict.FAILED}
        unclear = await planned(outrider, terms(), ExportRow(4, second, status="Hold"))
        assert verdicts(unclear) == {}


async def test_an_export_of_another_target_touches_nothing(database: str, tmp_path: Path) -> None:
    async with doubting(database, tmp_path, 1) as (outrider, [doubt]):
        given = ExportTerms("mail", "export.csv", "0" * 64, absent=DoubtVerdict.FAILED)
        plan = await planned(outrider, given, ExportRow(2, doubt.reference, status="sent"))
    assert (plan.doubts, plan.verdicts) == ([], [])

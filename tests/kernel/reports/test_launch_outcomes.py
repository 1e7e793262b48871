"""U3: over a stop, its retries and verdicts, each message has one final outcome everywhere."""

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import artifacts
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.overview import overview_page
from outrider.kernel.transactions.paging import FIRST, LAST
from outrider.kernel.transactions.phase_controls import RerunScope
from outrider.ports.store import Result, Transaction
from outrider.testing.launches import observe
from tests.kernel.control.test_control_races import (
    log_path,
    outrider,
    sandbox,
    settle_doubts,
    stopped_with_doubts,
)
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import control, until_ended, until_state
from tests.support.whole_runs import working

__all__ = ["log_path", "outrider", "sandbox"]

PEOPLE = 40
REPORT = "report"


async def told(outrider: Outrider, campaign_id: CampaignId) -> tuple[int, Accounting]:
    """By the snapshot; the list of campaigns says the same. No receipt speaks of any message."""
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    launch = next(each for each in snapshot.phases if each.phase == LAUNCH)
    assert launch.outcome is not None
    assert launch.outcome.holds
    assert launch.outcome.delivery == DeliveryCounts(unknown=launch.outcome.sent)
    page = await outrider.store.read(overview_page(DEFAULT_SCOPE, LAST, 10))
    assert [line.outcome for line in page.campaigns] == [launch.outcome]
    return launch.runs, replace(launch.outcome, delivery=None)


async def through(
    outrider: Outrider,
    campaign_id: CampaignId,
    action: Action,
    phase: str = LAUNCH,
    scope: RerunScope | None = None,
) -> None:
    await control(outrider, campaign_id, action, phase, scope=scope)
    async with working(outrider):
        await until_state(outrider, campaign_id, PhaseState.COMPLETED, phase)


async def reported(outrider: Outrider, campaign_id: CampaignId, action: Action) -> Counter[str]:
    """The outcomes in results.csv, of each recipient one; the page has the same totals."""
    await through(outrider, campaign_id, action, REPORT)
    kept = await outrider.store.read(artifacts.page(campaign_id, FIRST, 10))
    latest = {each.name: each.reference for each in kept}
    files = {
        name: b"".join([piece async for piece in outrider.artifacts.read(reference)]).decode()
        for name, reference in latest.items()
    }
    rows = list(csv.DictReader(io.StringIO(files["results.csv"])))
    assert len({row["recipientId"] for row in rows}) == len(rows) == PEOPLE
    outcomes = Counter(row["status"] for row in rows)
    page = files["report.html"]
    found = re.findall(r"<b>(\d+)</b><span>([a-z ]+)</span>", page)
    tiles = {name: int(count) for count, name in found}
    assert tiles["intended"] == PEOPLE
    assert tiles["sent"] == outcomes["sent"]
    assert tiles["failed"] == outcomes["failed"]
    assert f"Counted from the {PEOPLE} lines of results.csv" in page
    return outcomes


async def test_each_message_has_one_final_outcome_over_stop_retry_and_verdicts(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, first = await stopped_with_doubts(
        outrider, sandbox, PEOPLE, order=(LAUNCH, REPORT)
    )
    _, left = await observe(outrider, first)
    doubts = left.in_doubt
    assert await told(outrider, campaign_id) == (1, left)

    await through(outrider, campaign_id, Action.RETRY)
    assert await told(outrider, campaign_id) == (
        2, Accounting(PEOPLE, in_doubt=doubts, sent=PEOPLE - doubts),
    )  # fmt: skip
    await settle_doubts(outrider, first, DoubtVerdict.FAILED)
    failed = Accounting(PEOPLE, sent=PEOPLE - doubts, failed=doubts)
    assert await told(outrider, campaign_id) == (2, failed)
    outcomes = await reported(outrider, campaign_id, Action.START)
    assert outcomes == {"sent": PEOPLE - doubts, "failed": doubts}

    await through(outrider, campaign_id, Action.RERUN, scope=RerunScope.REMAINDER)
    assert await told(outrider, campaign_id) == (3, Accounting(PEOPLE, sent=PEOPLE))
    assert await reported(outrider, campaign_id, Action.RERUN) == {"sent": PEOPLE}


def noting(transaction: Transaction[Result], counted: list[object]) -> Transaction[Result]:
    """The same transaction, and the runs whose jobs it sums."""
    answer: Any = None
    try:
        while True:
            statement = transaction.send(answer)
            if statement.name == "sum_jobs_of_runs":
                counted += (statement.window or {})["id"]
            answer = yield statement
    except StopIteration as done:
        result: Result = done.value
        return result


async def test_the_list_does_not_recount_what_an_earlier_run_settled_finally(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """Every job of every earlier run was summed whenever the list was asked for."""
    campaign_id, doubted = await stopped_with_doubts(outrider, sandbox, PEOPLE)
    await control(outrider, campaign_id, Action.RETRY)
    stopped = (await control(outrider, campaign_id, Action.STOP)).run_id
    assert stopped is not None
    async with working(outrider):
        await until_ended(outrider, stopped)
    await through(outrider, campaign_id, Action.RETRY)
    counted: list[object] = []
    await outrider.store.read(noting(overview_page(DEFAULT_SCOPE, LAST, 10), counted))
    # What was in doubt when its run ended may have got a verdict since; of the others all is known.
    assert counted == [doubted]
    runs, outcome = await told(outrider, campaign_id)
    assert (runs, outcome.sent + outcome.in_doubt) == (3, PEOPLE)

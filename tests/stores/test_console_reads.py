"""What the console's pages are read with, on both stores: right, and in few statements."""

from itertools import product
from typing import Any

import msgspec
import pytest

from outrider.domain.campaign_states import CampaignState, campaign_state
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.errors import NotFound
from outrider.domain.evidence import NextStep, Settles
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.domain.states import PhaseState
from outrider.domain.suppressions import OptOut
from outrider.kernel.transactions import (
    accountings,
    campaigns,
    doubt_checks,
    doubt_lists,
    doubts,
    ledger_items,
    overview,
    run_records,
    suppressions,
    targets,
    trouble,
    watching,
)
from outrider.kernel.transactions.accountings import Settlings
from outrider.kernel.transactions.doubt_checks import Looked
from outrider.kernel.transactions.doubt_lists import ALL_DOUBTS, DoubtFilter
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.overview import CampaignOverview, overview_page
from outrider.kernel.transactions.paging import FIRST, LAST
from outrider.kernel.transactions.suppressions import PlannedMessage
from outrider.kernel.transactions.targets import TargetLoad
from outrider.kernel.transactions.trouble import Trouble
from outrider.ports.store import Statement, Store, Transaction, ask
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    DOUBTED,
    ELSEWHERE,
    NOON,
    REJECTED,
    Workshop,
    at,
)
from tests.support.raw_sql import raw_sql


async def listed(store: Store, scope: Scope = DEFAULT_SCOPE) -> list[CampaignOverview]:
    return (await store.read(overview_page(scope, LAST, 100))).campaigns


async def ended(shop: Workshop, *, count: int = 4, batch_size: int = 2, wrong: int = 1) -> RunId:
    """A run whose jobs settled a second after each other; the last ones of it were refused."""
    run_id = await shop.launch(count, batch_size=batch_size)
    for place in range(count // batch_size):
        context = await shop.claim_one(now=at(place))
        numbers = range(place * batch_size, (place + 1) * batch_size)
        ids = await shop.open(context, *numbers, now=at(place))
        verdicts = [REJECTED if number >= count - wrong else ACCEPTED for number in numbers]
        await shop.close(context, *zip(ids, verdicts, strict=True), now=at(place))
        await shop.settle(context, now=at(place))
    return run_id


async def doubted(shop: Workshop, count: int = 2) -> tuple[RunId, list[OutboxId]]:
    run_id = await shop.launch(count)
    context = await shop.claim_one()
    ids = await shop.open(context, *range(count))
    await shop.close(context, *((each, DOUBTED) for each in ids), now=at(1))
    await shop.settle(context, now=at(2))
    return run_id, ids


async def test_a_line_says_how_a_finished_run_ended(store: Store) -> None:
    run_id = await ended(Workshop(store))
    [line] = await listed(store)
    assert (line.state, line.control_phase) == (CampaignState.COMPLETED, None)
    assert line.shown is not None
    assert (line.shown.phase, line.shown.run_id) == ("launch", run_id)
    nobody_knows = DeliveryCounts(unknown=3)
    assert line.accounting == Accounting(intended=4, sent=3, failed=1, delivery=nobody_knows)
    assert line.progress_percentage == 100.0
    assert await listed(store, ELSEWHERE) == []


async def test_a_listed_campaign_that_never_ran_has_no_numbers(store: Store) -> None:
    await Workshop(store).campaign(3)
    [line] = await listed(store)
    assert (line.state, line.shown, line.accounting) == (CampaignState.NOT_STARTED, None, None)
    assert (line.progress_percentage, line.audience_size, line.last_sequence) == (0.0, 3, 0)


async def test_events_not_published_yet_are_counted(store: Store) -> None:
    shop = Workshop(store)
    run_id = await shop.launch(6, batch_size=3)
    context = await shop.claim_one()
    first, second, _ = await shop.open(context, 0, 1, 2)
    await shop.close(context, (first, ACCEPTED), (second, DOUBTED), now=at(1))
    [line] = await listed(store)
    assert (line.state, line.control_phase) == (CampaignState.IN_PROGRESS, "launch")
    counted = Accounting(intended=6, waiting=4, in_doubt=1, sent=1)
    assert await shop.accounting(run_id) == counted
    assert line.accounting == counted.with_delivery(DeliveryCounts(unknown=1))


async def test_the_latest_report_of_a_phase_in_progress_is_shown(
    store: Store, database: str
) -> None:
    shop = Workshop(store)
    run_id = await shop.launch(6)
    told = Accounting(intended=6, waiting=5, sent=1, delivery=DeliveryCounts(bounced=1))
    counted = Accounting(intended=6, waiting=6, delivery=DeliveryCounts())
    for of_run, accounting, expected in (
        (run_id, told.as_whole_document(), told),
        (shop.ids.new(), told.as_whole_document(), counted),
        # An earlier release told nothing of receipts.
        (run_id, told.as_document(), counted),
    ):
        document = {"runId": of_run, "accounting": accounting, "progressPercentage": 16.7}
        async with raw_sql(database) as raw:
            await raw.run(
                f"UPDATE campaign_phases SET progress = '{msgspec.json.encode(document).decode()}'"
            )
        [line] = await listed(store)
        assert line.accounting == expected


async def test_a_run_from_before_the_log_is_counted(store: Store) -> None:
    await ended(Workshop(store))
    [line] = await listed(store)
    assert line.shown is not None
    assert overview.known_accounting(line.shown) is not None
    assert overview.known_accounting(line.shown._replace(ending='{"adopted":true}')) is None


async def test_a_page_takes_as_many_statements_however_many_lines_it_has(store: Store) -> None:
    shop = Workshop(store)

    async def statements() -> int:
        asked: list[Statement] = []

        def counted() -> Transaction[None]:
            script = overview_page(DEFAULT_SCOPE, LAST, 100)
            statement = next(script)
            try:
                while True:
                    asked.append(statement)
                    statement = script.send((yield statement))
            except StopIteration:
                return

        await store.read(counted())
        return len(asked)

    await ended(shop)
    await shop.launch(3)
    few = await statements()
    for _ in range(5):
        await ended(shop)
        await shop.launch(3)
    assert await statements() == few == 5


async def test_the_state_that_is_filtered_by_is_the_one_that_is_shown(
    store: Store, database: str
) -> None:
    """Every mixture of two phases' states, by the domain's rule and by the statement's."""
    shop = Workshop(store)
    mixtures = list(product(PhaseState, repeat=2))
    made = {mixture: await shop.campaign(1) for mixture in mixtures}
    async with raw_sql(database) as raw:
        for (one, other), campaign_id in made.items():
            await raw.run(
                "INSERT INTO campaign_phases (campaign_id, phase, ordinal, state, updated_at)"
                f" SELECT campaign_id, 'report', 1, '{other.value}', updated_at"
                f" FROM campaign_phases WHERE campaign_id = '{campaign_id}'"
            )
            await raw.run(
                f"UPDATE campaign_phases SET state = '{one.value}'"
                f" WHERE campaign_id = '{campaign_id}' AND phase = 'launch'"
            )
    found: dict[CampaignId, CampaignState] = {}
    for state in CampaignState:
        page = await store.read(overview_page(DEFAULT_SCOPE, LAST, 100, state=state))
        for line in page.campaigns:
            assert line.state is state
            found[line.id] = state
    assert found == {made[mixture]: campaign_state(mixture) for mixture in mixtures}


async def test_campaigns_are_found_by_words_of_their_name_and_by_id(
    store: Store, database: str
) -> None:
    shop = Workshop(store)
    ids = [await shop.campaign(1) for _ in range(3)]
    async with raw_sql(database) as raw:
        for campaign_id, name in zip(ids, ("Spring Offer", "100% Übung_1", "Autumn"), strict=True):
            await raw.run(f"UPDATE campaigns SET name = '{name}' WHERE id = '{campaign_id}'")

    async def found(words: str) -> list[CampaignId]:
        page = await store.read(overview_page(DEFAULT_SCOPE, LAST, 10, words=words))
        return [line.id for line in page.campaigns]

    assert await found("spring OFF") == [ids[0]]
    assert await found("übung") == [ids[1]]
    assert await found("%") == [ids[1]]
    assert await found("_") == [ids[1]]
    assert await found("UMN") == [ids[2]]
    assert await found(ids[0]) == [ids[0]]
    assert await found("nothing of it") == []


async def test_a_filter_examines_a_limited_number_and_continues_from_there(store: Store) -> None:
    shop = Workshop(store)
    first = await shop.launch(1)
    ids = sorted([await shop.campaign(1) for _ in range(5)], reverse=True)
    running, before, seen = CampaignState.IN_PROGRESS, LAST, []
    for _ in range(3):
        page = await store.read(
            overview_page(DEFAULT_SCOPE, before, 2, state=running, looked_through=2)
        )
        seen.append([line.shown.run_id for line in page.campaigns if line.shown])
        assert page.next is not None
        before = page.next
    assert before < ids[-1]
    assert seen == [[], [], [first]]
    last = await store.read(
        overview_page(DEFAULT_SCOPE, before, 2, state=running, looked_through=2)
    )
    assert last == ([], None)


async def test_sequences_are_given_for_all_or_for_none(store: Store) -> None:
    shop = Workshop(store)
    mine = await shop.campaign(1)
    await shop.launch(1)
    both = [line.id for line in await listed(store)]
    found = await store.read(campaigns.last_sequences(DEFAULT_SCOPE, both))
    assert found == {mine: 0, both[0]: 1}
    for scope, asked in (
        (DEFAULT_SCOPE, [mine, CampaignId(shop.ids.new())]),
        (DEFAULT_SCOPE, [mine, CampaignId("x")]),
        (ELSEWHERE, [mine]),
    ):
        with pytest.raises(NotFound):
            await store.read(campaigns.last_sequences(scope, asked))


async def test_throughput_is_what_settled_when(store: Store) -> None:
    run_id = await ended(Workshop(store), count=6, batch_size=2, wrong=1)
    found = await store.read(accountings.throughput(run_id, NOON, 1.0, 3))
    assert found == {0: Settlings(sent=2), 1: Settlings(sent=2), 2: Settlings(sent=1, failed=1)}
    # What settled outside of the time that is looked at counts at its edges.
    assert await store.read(accountings.throughput(run_id, at(1), 0.5, 2)) == {
        0: Settlings(sent=4), 1: Settlings(sent=1, failed=1),
    }  # fmt: skip
    assert await store.read(accountings.unsettled_items(run_id)) == 0
    waiting = await Workshop(store).launch(3)
    assert await store.read(accountings.throughput(waiting, NOON, 1.0, 3)) == {}
    assert await store.read(accountings.unsettled_items(waiting)) == 3


async def test_items_are_paged_by_status_and_recipient_without_those_of_other_jobs(
    store: Store,
) -> None:
    run_id = await ended(Workshop(store), count=9, batch_size=3, wrong=4)

    async def paged(status: str | None, recipient: str | None = None) -> list[str]:
        names, after = [], None
        while True:
            page = await store.read(
                ledger_items.items_of_run(
                    DEFAULT_SCOPE, run_id, most=2, status=status, recipient_id=recipient,
                    after=after,
                )
            )  # fmt: skip
            names += [item.recipient_id for item in page]
            if len(page) < 2:
                return names
            after = LedgerPosition(page[-1].job_id or FIRST, page[-1].id)

    everybody = [f"lead-{number}" for number in range(9)]
    assert sorted(await paged(None)) == everybody
    assert sorted(await paged("sent")) == everybody[:5]
    assert sorted(await paged("failed")) == everybody[5:]
    assert await paged("queued") == await paged("skipped") == []
    assert await paged(None, "lead-7") == await paged("failed", "lead-7") == ["lead-7"]
    assert await paged("sent", "lead-7") == await paged(None, "nobody") == []
    assert (
        await store.read(ledger_items.items_of_run(ELSEWHERE, run_id, most=9, status="sent")) == []
    )


async def test_doubts_are_filtered_and_counted_by_what_they_wait_for(store: Store) -> None:
    shop = Workshop(store)
    run_id, ids = await doubted(shop, 3)
    campaign_id = (await store.read(run_records.run(DEFAULT_SCOPE, run_id))).campaign_id
    claimed = await store.write(doubt_checks.claim(10, at(100), at(50)))
    people, by_key = claimed[0], claimed[1]
    await store.write(
        doubt_checks.put_back(
            [
                Looked(people, NextStep(Settles.PERSON, at(51))),
                Looked(by_key, NextStep(Settles.KEY, at(50), at(60))),
            ]
        )
    )
    # What evidence will settle is nobody's to wait for.
    rows = await store.read(ask("doubts_of_runs", {"id": [run_id]}))
    [row] = rows
    assert tuple(row)[:4] == (run_id, 1, at(51), 2)
    # The third is held by its settler, whose lease ends then.
    assert tuple(row)[5:] == (at(60), 0, 1, 0)
    [left] = await store.read(watching.waiting_doubts(at(60), 10))
    assert (left.since, left.detail) == (at(51), {"items": 1})
    assert await store.read(watching.waiting_doubts(at(51), 10)) == []

    async def found(**of: Any) -> set[OutboxId]:
        page = await store.read(doubt_lists.page(DEFAULT_SCOPE, DoubtFilter(**of), FIRST, 10))
        return {doubt.id for doubt in page}

    assert await found(settles=Settles.PERSON) == {people.id}
    assert await found(settles=Settles.KEY, campaign_id=campaign_id) == {by_key.id}
    assert await found(settles=Settles.LOOK_UP) == set()
    assert await found(submission_target="nowhere") == await found(reason="nothing") == set()
    [listed] = await store.read(
        doubt_lists.page(DEFAULT_SCOPE, DoubtFilter(settles=Settles.KEY), FIRST, 10)
    )
    assert (listed.since, listed.next_check_at) == (at(50), at(60))
    assert await found(submission_target=listed.submission_target) == set(ids)
    assert await found(reason=listed.reason) == set(ids)
    counts, names = await store.read(doubt_lists.named_counts(DEFAULT_SCOPE, ALL_DOUBTS, 10))
    assert (counts.left_to_people, counts.settling_by_themselves, counts.unchecked) == (1, 2, 1)
    assert counts.people_since == at(51)
    assert counts.submission_targets == {listed.submission_target: 3}
    assert counts.campaigns == {campaign_id: 3}
    assert set(names) == {campaign_id}


async def test_items_of_a_job_that_has_not_settled_are_found_too(store: Store) -> None:
    shop = Workshop(store)
    run_id = await shop.launch(3)
    context = await shop.claim_one()
    first, second = await shop.open(context, 0, 1)
    await shop.close(context, (first, ACCEPTED), (second, DOUBTED), now=at(1))
    for status, expected in (("sent", [first]), ("queued", [second]), ("failed", [])):
        found = await store.read(
            ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=9, status=status)
        )
        assert [item.id for item in found] == expected


async def test_doubts_are_those_of_a_run_of_a_campaign_or_of_the_workspace(store: Store) -> None:
    shop = Workshop(store)
    run_id, ids = await doubted(shop, 2)
    other, others = await doubted(shop, 3)
    campaign_id = (await store.read(run_records.run(DEFAULT_SCOPE, run_id))).campaign_id

    async def found(run: str | None, campaign: str | None) -> list[OutboxId]:
        of = DoubtFilter(run, campaign)
        page = await store.read(doubt_lists.page(DEFAULT_SCOPE, of, FIRST, 10))
        assert (await store.read(doubt_lists.counts(DEFAULT_SCOPE, of, 10))).total == len(page)
        resolvers = await store.read(doubts.doubts_page(DEFAULT_SCOPE, run, FIRST, 10, campaign))
        assert [doubt.id for doubt in resolvers] == [doubt.id for doubt in page]
        return [doubt.id for doubt in page]

    assert await found(None, None) == sorted([*ids, *others])
    assert await found(None, campaign_id) == await found(run_id, None) == sorted(ids)
    assert await found(other, campaign_id) == []
    [first, _] = await store.read(doubts.doubts_page(DEFAULT_SCOPE, run_id, FIRST, 10))
    assert first.campaign_id == campaign_id
    assert (await store.read(doubt_lists.counts(DEFAULT_SCOPE, ALL_DOUBTS, 4))).total == 4
    for run, campaign in ((run_id, None), (None, campaign_id)):
        with pytest.raises(NotFound):
            await store.read(doubt_lists.counts(ELSEWHERE, DoubtFilter(run, campaign), 10))
    asked = [*ids, OutboxId("x"), OutboxId(shop.ids.new())]
    assert await store.read(doubts.doubts_among(DEFAULT_SCOPE, asked)) == sorted(ids)
    assert await store.read(doubts.doubts_among(ELSEWHERE, ids)) == []


async def test_trouble_is_counted_by_workspace_and_no_further_than_asked(
    store: Store, database: str
) -> None:
    shop = Workshop(store)
    assert await store.read(trouble.trouble(DEFAULT_SCOPE, 10)) == Trouble(0, 0, 0, 0, 0)
    run_id, _ = await doubted(shop, 3)
    async with raw_sql(database) as raw:
        for number in (1, 2):
            letter = f"0100000{number}-0000-7000-8000-00000000dead"
            await raw.run(
                "INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id,"
                f" run_seq, attempts, error, created_at, redriven_at) SELECT '{letter}',"
                " tenant_id, workspace_id, 'audit', id, 1, 20, 'down', created_at,"
                f" {'created_at' if number == 2 else 'NULL'}"
                f" FROM campaign_runs WHERE id = '{run_id}'"
            )
            await raw.run(
                "INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject,"
                f" message, detail, raised_at, last_seen_at, resolved_at) SELECT '{letter}',"
                f" tenant_id, workspace_id, 'LATE', 'P2', '{number}', 'late', '{{}}', created_at,"
                f" created_at, {'created_at' if number == 2 else 'NULL'}"
                f" FROM campaign_runs WHERE id = '{run_id}'"
            )
        await raw.run("UPDATE campaign_phases SET state = 'failed'")
        await raw.run("UPDATE campaign_phases SET state = 'completed'")
    assert await store.read(trouble.trouble(DEFAULT_SCOPE, 10)) == Trouble(3, 1, 1, 2, 0)
    assert await store.read(trouble.trouble(DEFAULT_SCOPE, 1)) == Trouble(1, 1, 1, 1, 0)
    assert await store.read(trouble.trouble(ELSEWHERE, 10)) == Trouble(0, 0, 0, 0, 0)
    [latest] = await store.read(trouble.bypasses_page(DEFAULT_SCOPE, LAST, 1))
    [before] = await store.read(trouble.bypasses_page(DEFAULT_SCOPE, latest.id, 10))
    assert before.id < latest.id
    written = {msgspec.json.decode(each.detail)["to_status"] for each in (before, latest)}
    assert written == {"failed", "completed"}
    assert await store.read(trouble.bypasses_page(ELSEWHERE, LAST, 10)) == []


async def test_a_workspaces_open_work_at_a_target_is_counted(store: Store) -> None:
    shop = Workshop(store)
    await ended(shop)
    await shop.launch(4, batch_size=2)
    await doubted(shop, 3)
    loads = await store.read(targets.loads(DEFAULT_SCOPE))
    assert list(loads.values()) == [TargetLoad(open_jobs=3, in_doubt=3)]
    assert await store.read(targets.loads(ELSEWHERE)) == {}


async def test_an_opt_out_is_known_by_channel_and_address(store: Store) -> None:
    await store.write(
        suppressions.suppress(DEFAULT_SCOPE, "email", ["Ada@example.test"], OptOut("x"), NOON)
    )
    asked = [
        PlannedMessage("email", "ADA@example.test"),
        PlannedMessage("sms", "ada@example.test"),
        PlannedMessage("email", "bo@b.test"),
    ]
    found = await store.read(suppressions.suppressed_among(DEFAULT_SCOPE, asked))
    assert found == {PlannedMessage("email", "ADA@example.test")}
    assert await store.read(suppressions.suppressed_among(ELSEWHERE, asked)) == set()

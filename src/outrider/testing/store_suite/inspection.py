"""Conformance: reading back. Accounting that always adds up, pages, scopes, and transactions."""

import pytest

from outrider.domain.errors import NotFound, StoreRefused
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId
from outrider.domain.states import ItemStatus
from outrider.domain.suppressions import OptOut
from outrider.kernel.transactions import (
    audit_trail,
    campaigns,
    ledger_items,
    ledger_pages,
    paging,
    run_jobs,
    run_records,
    suppressions,
)
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.ports.store import Store, Transaction, ask
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    DOUBTED,
    ELSEWHERE,
    MOST,
    NOON,
    REJECTED,
    WORD,
    Workshop,
    again,
    at,
)


class InspectionConformance:
    async def test_the_accounting_adds_up_at_every_step(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(6, batch_size=3)

        async def seen() -> tuple[int, int, int, int, int]:
            counted = await shop.accounting(run_id)
            assert counted.intended == 6
            return (
                counted.waiting, counted.in_doubt, counted.sent, counted.failed, counted.skipped,
            )  # fmt: skip

        assert await seen() == (6, 0, 0, 0, 0)
        first = await shop.claim_one()
        assert await seen() == (6, 0, 0, 0, 0)
        sent, failed = await shop.open(first, 0, 1)
        skipped = shop.draft(first, 2, status=ItemStatus.SKIPPED, reason="no_address")
        await shop.reserve(first, [skipped])
        assert await seen() == (5, 0, 0, 0, 1)
        await shop.close(first, (sent, ACCEPTED), (failed, REJECTED))
        assert await seen() == (3, 0, 1, 1, 1)
        await shop.settle(first)
        assert await seen() == (3, 0, 1, 1, 1)
        second = await shop.claim_one()
        ids = await shop.open(second, 3, 4, 5)
        await shop.close(second, (ids[0], again(5)), (ids[1], DOUBTED), (ids[2], ACCEPTED))
        assert await seen() == (1, 1, 2, 1, 1)
        await shop.settle(second, now=at(1))
        assert await seen() == (1, 1, 2, 1, 1)

    async def test_a_certificate_reads_the_ledger_in_pages(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(5)
        dead = await shop.claim_one()
        ids = await shop.open(dead, 0, 1, 2, 3, 4)
        context = await shop.take_over(now=at(31))
        await shop.reopen(context, ids[2], now=at(32))
        lines, after = [], LedgerPosition()
        while page := await store.read(ledger_pages.ledger_page(run_id, after, 2)):
            assert len(page) <= 2
            lines += page
            after = LedgerPosition(page[-1].job_id, page[-1].id)
        assert [line.id for line in lines] == sorted(ids)
        by_id = {line.id: line for line in lines}
        assert (by_id[ids[2]].repeat_target, by_id[ids[2]].repeat_memory) == WORD
        assert by_id[ids[0]].repeat_memory is None
        assert not any(line.was_repeated_before or line.was_disproved for line in lines)
        assert by_id[ids[0]].reference == (await shop.item(ids[0])).reference
        assert {line.submission_target for line in lines} == {WORD.target}

    async def test_the_schema_says_that_keys_are_unique(self, store: Store) -> None:
        assert await store.read(ledger_pages.key_is_unique_in_schema()) is True

    async def test_reasons_are_counted_by_the_items_outcome(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        ids = await shop.open(context, 0, 1)
        await shop.close(context, *((item_id, REJECTED) for item_id in ids))
        skipped = shop.draft(context, 2, status=ItemStatus.SKIPPED, reason="no_address")
        await shop.reserve(context, [skipped])
        counts = await store.read(run_jobs.reason_counts(run_id))
        assert [(row.status, row.reason, row.items) for row in counts] == [
            ("failed", "invalid_recipient", 2),
            ("skipped", "no_address", 1),
        ]

    async def test_an_item_is_found_by_its_id_its_run_or_its_recipient(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        context = await shop.claim_one()
        first, _ = await shop.open(context, 0, 1)
        by_run = await store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))
        assert len(by_run) == 2
        by_recipient = await store.read(
            ledger_items.items_of_run(DEFAULT_SCOPE, run_id, recipient_id="lead-0", most=MOST)
        )
        assert [item.id for item in by_recipient] == [first]
        after = LedgerPosition(by_run[0].job_id or "", by_run[0].id)
        rest = ledger_items.items_of_run(DEFAULT_SCOPE, run_id, after=after, most=MOST)
        assert await store.read(rest) == by_run[1:]
        assert (await shop.item(first)).recipient_id == "lead-0"

    async def test_an_item_is_unknown_in_another_workspace(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        [first] = await shop.open(await shop.claim_one(), 0)
        assert await store.read(ledger_items.items_of_run(ELSEWHERE, run_id, most=MOST)) == []
        for scope, outbox_id in ((ELSEWHERE, first), (DEFAULT_SCOPE, OutboxId("no id at all"))):
            with pytest.raises(NotFound):
                await store.read(ledger_items.item(scope, outbox_id))

    async def test_a_run_is_unknown_in_another_workspace(self, store: Store) -> None:
        run_id = await Workshop(store).launch(1)
        with pytest.raises(NotFound):
            await store.read(run_records.run(ELSEWHERE, run_id))
        with pytest.raises(NotFound):
            await store.read(run_records.run(DEFAULT_SCOPE, RunId(paging.LAST)))

    async def test_the_audit_log_is_appended_to_and_read_in_pages(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = RunId(shop.ids.new())
        names = [f"thing.happened_{number}" for number in range(5)]
        for name in names:
            entry = AuditEntry(
                DEFAULT_SCOPE, name, "suite", run_id=run_id, detail={"text": "naïve ☃"}
            )
            await store.write(record([entry], shop.ids, NOON))
        seen: list[str] = []
        after = paging.FIRST
        while page := await store.read(audit_trail.audit_of_run(DEFAULT_SCOPE, run_id, after, 2)):
            seen += [entry.event for entry in page]
            after = page[-1].id
        assert sorted(seen) == names
        assert (await shop.audit(run_id))[0][1] == {"text": "naïve ☃"}
        assert not await store.read(audit_trail.audit_of_run(ELSEWHERE, run_id, paging.FIRST, MOST))

    async def test_a_script_that_raises_leaves_nothing_of_what_it_wrote(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)

        def script() -> Transaction[None]:
            yield from ask("set_audience_size", campaign_id=campaign_id, size=77)
            raise RuntimeError("halfway")

        with pytest.raises(RuntimeError, match="halfway"):
            await store.write(script())
        found = await store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
        assert found.audience_size == 1

    async def test_a_refused_statement_rolls_back_the_ones_before_it(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)

        def script() -> Transaction[None]:
            yield from ask("set_audience_size", campaign_id=campaign_id, size=77)
            yield from ask(
                "insert_campaign", **DEFAULT_SCOPE._asdict(), id=campaign_id, name="again",
                definition="{}", now=NOON,
            )  # fmt: skip

        with pytest.raises(StoreRefused):
            await store.write(script())
        found = await store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
        assert (found.name, found.audience_size) == ("suite", 1)
        # The connection is usable afterwards.
        assert await shop.campaign(1) != campaign_id

    async def test_a_script_sees_its_own_writes(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)

        def script() -> Transaction[list[int]]:
            sequences = []
            for _ in range(3):
                rows = yield from ask("next_sequence", campaign_id=campaign_id)
                sequences.append(rows[0][0])
            return sequences

        assert await store.write(script()) == [1, 2, 3]

    async def test_texts_of_every_script_are_read_back_unchanged(self, store: Store) -> None:
        shop = Workshop(store)
        text = "quote ' \" back\\slash \u200f مرحبا 𝄞 {}[]$1:name?"
        run_id = await shop.launch(1)
        context = await shop.claim_one()
        draft = shop.draft(context, 0, status=ItemStatus.FAILED, reason="render_failed", error=text)
        await shop.reserve(context, [draft._replace(subject=text, address=text)])
        item = (await shop.items(run_id))["lead-0"]
        assert (item.error, item.subject, item.address) == (text, text, text)

    async def test_an_empty_window_of_suppressions_changes_nothing(self, store: Store) -> None:
        await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [], OptOut("opt-out"), NOON))
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        assert len(await shop.open(context, 0)) == 1

    async def test_times_are_read_back_in_utc_to_the_microsecond(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)
        instant = at(0.000001)
        run_id = await shop.deploy(campaign_id, scheduled_for=instant)
        run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
        assert run.scheduled_for == instant
        assert run.scheduled_for.utcoffset() == instant.utcoffset()
        assert isinstance(run.campaign_id, str)
        assert CampaignId(run.campaign_id) == campaign_id

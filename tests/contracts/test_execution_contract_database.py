"""Contract 000's C2 and §7: what the database itself refuses, asked in plain SQL on both stores."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from outrider.domain.ids import DEFAULT_TENANT, DEFAULT_WORKSPACE, RunId
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import ACCEPTED, Workshop, again
from tests.support.raw_sql import Raw, Refused, raw_sql

THEN = "2026-01-01T00:00:00.000000Z"
KEY = bytes(range(32))
OTHER_KEY = bytes(reversed(range(32)))
OTHER_WORKSPACE = "00000000-0000-7000-8000-0000000000ff"
STATUSES = ["queued", "sent", "called", "posted", "failed", "skipped"]


@dataclass
class Ledger:
    """A finished run of two items, an unfinished one of one item, and plain SQL beside them."""

    raw: Raw
    finished: RunId
    unfinished: RunId
    rows: int = 0

    async def insert(self, **changes: str) -> None:
        """Insert a valid queued row, changed as told; values are SQL."""
        self.rows += 1
        values = {
            "id": f"'00000000-0000-7000-8000-{self.rows:012d}'",
            "tenant_id": f"'{DEFAULT_TENANT}'",
            "workspace_id": f"'{DEFAULT_WORKSPACE}'",
            "origin": "'campaign'",
            "channel": "'sms'",
            "provider": "'sms'",
            "submission_target": "'sms.realtime'",
            "contract_id": "1",
            "recipient_id": "'lead'",
            "idempotency_key": self.raw.blob(KEY),
            "status": "'queued'",
            "skipped": "false",
            "attempts": "0",
            "created_at": f"'{THEN}'",
            "updated_at": f"'{THEN}'",
        } | changes
        names, cells = ", ".join(values), ", ".join(values.values())
        await self.raw.run(f"INSERT INTO channel_outbox ({names}) VALUES ({cells})")


@pytest.fixture
async def ledger(store: Store, database: str) -> AsyncIterator[Ledger]:
    shop = Workshop(store)
    finished = await shop.launch(2)
    done = await shop.claim_one()
    sent = await shop.open(done, 0, 1)
    await shop.close(done, *((item_id, ACCEPTED) for item_id in sent))
    await shop.settle(done)
    unfinished = await shop.launch(1)
    locked = await shop.claim_one()
    (waiting,) = await shop.open(locked, 0)
    await shop.close(locked, (waiting, again(60)))
    async with raw_sql(database) as raw:
        yield Ledger(raw, finished, unfinished)


async def test_c2_database_accepts_a_valid_row(ledger: Ledger) -> None:
    await ledger.insert()
    assert await ledger.raw.value("SELECT count(*) FROM channel_outbox") == 4


@pytest.mark.parametrize("status", STATUSES)
async def test_c2_database_accepts_every_status_of_the_taxonomy(
    ledger: Ledger, status: str
) -> None:
    succeeded = status in ("sent", "called", "posted")
    await ledger.insert(
        status=f"'{status}'",
        skipped="true" if status == "skipped" else "false",
        attempt_opened_at=f"'{THEN}'" if succeeded else "NULL",
        attempt_closed_at=f"'{THEN}'" if succeeded else "NULL",
    )
    assert (
        await ledger.raw.value(
            f"SELECT count(*) FROM channel_outbox WHERE status = '{status}' AND run_id IS NULL"
        )
        == 1
    )


@pytest.mark.parametrize("status", ["'delivered'", "'SENT'", "''", "NULL"])
async def test_c2_database_rejects_an_invalid_status(ledger: Ledger, status: str) -> None:
    with pytest.raises(Refused):
        await ledger.insert(status=status)


@pytest.mark.parametrize("status", [each for each in STATUSES if each != "skipped"])
async def test_c2_database_rejects_skipped_true_with_another_status(
    ledger: Ledger, status: str
) -> None:
    with pytest.raises(Refused, match="skipped_status_check"):
        await ledger.insert(
            status=f"'{status}'",
            skipped="true",
            attempt_opened_at=f"'{THEN}'",
            attempt_closed_at=f"'{THEN}'",
        )


async def test_c2_database_rejects_skipped_false_with_status_skipped(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="skipped_status_check"):
        await ledger.insert(status="'skipped'", skipped="false")


async def test_c2_database_rejects_a_missing_key(ledger: Ledger) -> None:
    with pytest.raises(Refused):
        await ledger.insert(idempotency_key="NULL")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
async def test_c2_database_rejects_a_key_that_is_no_sha256(ledger: Ledger, length: int) -> None:
    with pytest.raises(Refused):
        await ledger.insert(idempotency_key=ledger.raw.blob(bytes(length)))


async def test_c2_database_rejects_a_second_row_with_the_same_key(ledger: Ledger) -> None:
    await ledger.insert()
    with pytest.raises(Refused):
        await ledger.insert(recipient_id="'somebody else'")
    await ledger.insert(idempotency_key=ledger.raw.blob(OTHER_KEY))


async def test_c2_database_accepts_the_same_key_in_another_workspace(ledger: Ledger) -> None:
    await ledger.insert()
    await ledger.insert(workspace_id=f"'{OTHER_WORKSPACE}'")
    assert await ledger.raw.value("SELECT count(*) FROM channel_outbox WHERE run_id IS NULL") == 2


async def test_c2_database_rejects_a_success_without_a_closed_attempt(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="success_was_called"):
        await ledger.insert(status="'sent'")
    with pytest.raises(Refused):
        await ledger.insert(status="'sent'", attempt_opened_at=f"'{THEN}'")


async def test_c2_database_rejects_a_terminal_row_whose_attempt_is_open(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="terminal_is_closed"):
        await ledger.insert(status="'failed'", attempt_opened_at=f"'{THEN}'")


async def test_c2_database_rejects_a_terminal_row_that_is_still_pending(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="judged_when_terminal"):
        await ledger.insert(status="'failed'", intent_status="'PENDING'")


async def test_c2_database_rejects_a_doubt_about_nothing(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="doubt_is_open"):
        await ledger.insert(doubted_at=f"'{THEN}'")
    with pytest.raises(Refused, match="doubt_is_open"):
        await ledger.insert(status="'failed'", doubted_at=f"'{THEN}'")


@pytest.mark.parametrize(
    "change", ["status = 'queued'", "status = 'failed'", "reason = 'because'", "attempts = 9"]
)
async def test_c2_database_rejects_any_change_of_a_terminal_row(
    ledger: Ledger, change: str
) -> None:
    with pytest.raises(Refused, match="terminal ledger row never changes"):
        await ledger.raw.run(
            f"UPDATE channel_outbox SET {change} WHERE run_id = '{ledger.finished}'"
        )


@pytest.mark.parametrize("status", ["sent", "queued"])
async def test_c2_database_rejects_deleting_a_ledger_row(ledger: Ledger, status: str) -> None:
    with pytest.raises(Refused, match="never deleted"):
        await ledger.raw.run(f"DELETE FROM channel_outbox WHERE status = '{status}'")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE attempt_history SET outcome = 'error'",
        "DELETE FROM attempt_history",
        "UPDATE campaign_audit_log SET actor = 'somebody else'",
        "DELETE FROM campaign_audit_log",
        "UPDATE campaign_events SET type = 'phase_failed'",
        "UPDATE assets SET body = 'another text'",
    ],
)
async def test_c2_database_rejects_rewriting_history(ledger: Ledger, statement: str) -> None:
    table = statement.replace("DELETE FROM", "UPDATE").split()[1]
    before = await ledger.raw.run(f"SELECT * FROM {table}")
    assert before
    with pytest.raises(Refused):
        await ledger.raw.run(statement)
    assert await ledger.raw.run(f"SELECT * FROM {table}") == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE campaign_runs SET status = 'launched'",
        "UPDATE job_queue SET status = 'done' WHERE status = 'completed'",
        "UPDATE job_queue SET outcome = 'fine' WHERE status = 'completed'",
        "UPDATE campaign_phases SET state = 'stopped'",
        "UPDATE channel_outbox SET intent_status = 'OK' WHERE status = 'queued'",
        "UPDATE channel_outbox SET progress = 'SOMEWHERE' WHERE status = 'queued'",
    ],
)
async def test_c2_database_rejects_an_unknown_state_of_anything(
    ledger: Ledger, statement: str
) -> None:
    with pytest.raises(Refused):
        await ledger.raw.run(statement)


async def test_c2_database_rejects_a_lock_without_a_holder(ledger: Ledger) -> None:
    run = f"run_id = '{ledger.unfinished}'"
    assert await ledger.raw.value(f"SELECT status FROM job_queue WHERE {run}") == "locked"
    with pytest.raises(Refused):
        await ledger.raw.run(f"UPDATE job_queue SET locked_by = NULL WHERE {run}")
    with pytest.raises(Refused):
        await ledger.raw.run(f"UPDATE job_queue SET status = 'queued' WHERE {run}")


@pytest.mark.parametrize("status", ["completed", "partial", "failed"])
async def test_c2_database_rejects_a_finished_run_without_its_time(
    ledger: Ledger, status: str
) -> None:
    with pytest.raises(Refused):
        await ledger.raw.run(
            f"UPDATE campaign_runs SET status = '{status}' WHERE id = '{ledger.unfinished}'"
        )
    with pytest.raises(Refused):
        await ledger.raw.run(
            f"UPDATE campaign_runs SET finished_at = NULL WHERE id = '{ledger.finished}'"
        )


async def test_c2_database_rejects_completing_a_job_whose_items_are_not_all_terminal(
    ledger: Ledger,
) -> None:
    done = "status = 'completed', outcome = 'completed', locked_by = NULL"
    unjudged = "status = 'completed', locked_by = NULL, sent = 1"
    run = f"run_id = '{ledger.unfinished}'"
    with pytest.raises(Refused):
        await ledger.raw.run(f"UPDATE job_queue SET {done} WHERE {run}")
    with pytest.raises(Refused):
        await ledger.raw.run(f"UPDATE job_queue SET {unjudged} WHERE {run}")


async def test_c2_database_has_the_index_for_run_detail_queries(ledger: Ledger) -> None:
    catalogue = (
        "SELECT count(*) FROM pg_indexes WHERE indexname = 'idx_channel_outbox_run_id'"
        if "::bytea" in ledger.raw.blob(b"")
        else "SELECT count(*) FROM sqlite_schema WHERE name = 'idx_channel_outbox_run_id'"
    )
    assert await ledger.raw.value(catalogue) == 1


async def test_c2_database_names_the_constraint_that_an_invalid_status_breaks(
    ledger: Ledger,
) -> None:
    """M14: §7 names it, and so does the error, on both stores."""
    with pytest.raises(Refused, match="channel_outbox_status_check"):
        await ledger.insert(status="'delivered'")
    with pytest.raises(Refused, match="channel_outbox_skipped_status_check"):
        await ledger.insert(skipped="true")
    with pytest.raises(Refused, match="channel_outbox_idempotency_key_check"):
        await ledger.insert(idempotency_key=ledger.raw.blob(b"short"))


async def test_c2_an_item_is_found_by_its_key_as_the_contract_writes_it(ledger: Ledger) -> None:
    """M10: lower-case hex, in plain SQL."""
    await ledger.insert(idempotency_key=ledger.raw.blob(KEY))
    found = await ledger.raw.run(
        f"SELECT recipient_id, status FROM ledger_by_key WHERE idempotency_key = '{KEY.hex()}'"
    )
    assert found == [("lead", "queued")]
    keys = await ledger.raw.run("SELECT idempotency_key FROM ledger_by_key")
    counted = await ledger.raw.value("SELECT count(*) FROM channel_outbox")
    assert len(keys) == counted
    assert all(len(key) == 64 for (key,) in keys)

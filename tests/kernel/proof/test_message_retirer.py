"""The message retirer: old messages, events and receipts leave their keys, on both stores."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import IdempotencyConflict
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.kernel.proof.message_retirer import MessageRetirer
from outrider.kernel.submissions.submission_manager import Submission
from tests.support.noop_launches import NOOP
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working
from tests.support.workflows import Office, office, whatsapp

TEXT = Submission("welcome-1", NOOP, {"to": "+447700900123", "message": "Hi"})
OF_MESSAGES = ("channel_outbox", "attempt_history", "provider_messages", "retiring_rows")
OF_EVENTS = ("channel_outbox", "domain_events", "event_people", "digests", "digest_entries")


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path) as made:
        yield made


def soon(outrider: Outrider) -> datetime:
    return outrider.clock.now() + timedelta(seconds=1)


async def rows_in(database: str, *tables: str) -> dict[str, int]:
    async with raw_sql(database) as raw:
        return {table: (await raw.run(f"SELECT count(*) FROM {table}"))[0][0] for table in tables}


async def sent(outrider: Outrider, database: str) -> None:
    """The intent, submitted and accepted."""
    await outrider.submissions.submit(DEFAULT_SCOPE, TEXT)
    async with working(outrider), raw_sql(database) as raw:
        for _ in range(1_000):
            if await raw.run("SELECT 1 FROM channel_outbox WHERE status = 'sent'"):
                return
            await outrider.clock.sleep(0.01)
    raise AssertionError("nothing was sent")


async def test_a_retired_intent_is_gone_and_not_sent_again(
    noop_outrider: Outrider, database: str
) -> None:
    await sent(noop_outrider, database)
    done = await noop_outrider.message_retirer.retire(soon(noop_outrider))
    assert done.messages == 1
    assert await rows_in(database, *OF_MESSAGES) == dict.fromkeys(OF_MESSAGES, 0)
    with pytest.raises(IdempotencyConflict, match="retired"):
        await noop_outrider.submissions.submit(DEFAULT_SCOPE, TEXT)
    others = [TEXT, Submission("welcome-2", NOOP, {"to": "+447700900124", "message": "Hi"})]
    repeated, new = await noop_outrider.submissions.submit_each(DEFAULT_SCOPE, others)
    assert isinstance(repeated, IdempotencyConflict)
    assert isinstance(new, tuple)
    assert new[1]


async def test_a_key_is_forgotten_when_its_memory_ends(
    noop_outrider: Outrider, database: str
) -> None:
    await sent(noop_outrider, database)
    short = MessageRetirer(noop_outrider.foundation, timedelta(0))
    assert (await short.retire(soon(noop_outrider))).messages == 1
    assert (await short.retire(soon(noop_outrider))).keys_forgotten == 1
    _, is_new = await noop_outrider.submissions.submit(DEFAULT_SCOPE, TEXT)
    assert is_new


async def test_what_waits_or_is_young_stays(noop_outrider: Outrider, database: str) -> None:
    await noop_outrider.submissions.submit(DEFAULT_SCOPE, TEXT)
    assert (await noop_outrider.message_retirer.retire(soon(noop_outrider))).messages == 0
    await sent(noop_outrider, database)
    young = noop_outrider.clock.now() - timedelta(hours=1)
    assert (await noop_outrider.message_retirer.retire(young)).messages == 0
    assert await noop_outrider.message_retirer.count(soon(noop_outrider)) == 1


async def test_a_retired_event_is_gone_and_not_routed_again(desk: Office) -> None:
    await desk.rule("quote_sent", Channel.WHATSAPP, whatsapp())
    await desk.routed("quote_sent", event_id="quote-1")
    found = await desk.delivered()
    done = await desk.outrider.message_retirer.retire(soon(desk.outrider))
    assert (done.messages, done.events) == (len(found), 1)
    assert await rows_in(desk.database, *OF_EVENTS) == dict.fromkeys(OF_EVENTS, 0)
    with pytest.raises(IdempotencyConflict, match="retired"):
        await desk.emit("quote_sent", event_id="quote-1")
    assert await rows_in(desk.database, "domain_events") == {"domain_events": 0}


async def test_an_event_that_is_not_routed_yet_stays(desk: Office) -> None:
    await desk.rule("quote_sent", Channel.WHATSAPP, whatsapp())
    await desk.emit("quote_sent")
    assert (await desk.outrider.message_retirer.retire(soon(desk.outrider))).events == 0


async def test_a_receipt_of_no_message_is_gone_and_not_taken_again(
    noop_outrider: Outrider, database: str
) -> None:
    receipt = Receipt(event=ReceiptEvent.DELIVERED, receipt_id="r-1", reference="nobody")
    await noop_outrider.receipt_intake.take_in(DEFAULT_SCOPE, NOOP, [receipt])
    assert (await noop_outrider.message_retirer.retire(soon(noop_outrider))).receipts == 0
    async with raw_sql(database) as raw:
        await raw.run("UPDATE waiting_receipts SET looks = 5, look_at = NULL")
    assert (await noop_outrider.message_retirer.retire(soon(noop_outrider))).receipts == 1
    await noop_outrider.receipt_intake.take_in(DEFAULT_SCOPE, NOOP, [receipt])
    assert await rows_in(database, "receipts") == {"receipts": 0}

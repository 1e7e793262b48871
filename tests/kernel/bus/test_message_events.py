"""Message events: what receipts say of messages of all three doors, for whoever listens."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId
from outrider.domain.message_events import STREAMS_PER_WORKSPACE, MessageEventType, stream_of
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import message_events
from outrider.kernel.transactions.message_events import MessageReport
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.bus import MESSAGE_WORDS_MAX_CHARACTERS
from outrider.settings import SinkSettings
from outrider.testing.launches import launch, message, target
from tests.support.bus_receiver import SECRET, Receiver, answer, receiving
from tests.support.controls import until
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened, work_until_terminal, working
from tests.support.workflows import TO_LEAD, Office
from tests.unit.test_schemas import SCHEMAS, problems, unnamed

QUICK = replace(
    IMPATIENT, bus_poll_seconds=0.02, message_queue_poll_seconds=0.02, bus_max_attempts=1
)
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NUMBER = "+447700900123"


@asynccontextmanager
async def scene(
    database: str, folder: Path, sandbox: Sandbox, receiver: Receiver, **others: Any
) -> AsyncIterator[Outrider]:
    (folder / "secret").write_text(SECRET)
    sink = SinkSettings.model_validate({"url": receiver.url, "secret": f"file:{folder}/secret"})
    entry = target("sms", "sms", sandbox.http_url)
    others = {"bus": {"audit": sink}, **others}
    async with opened(
        database, folder, entry, limits=QUICK, allow_private_callbacks=True, **others
    ) as outrider:
        await outrider.bus_keeper.register()
        yield outrider


async def items(database: str) -> dict[str, OutboxId]:
    """Of each door its one item."""
    async with raw_sql(database) as raw:
        rows = await raw.run("SELECT origin, id FROM channel_outbox")
    return {row[0]: OutboxId(str(row[1])) for row in rows}


async def one_of_each(outrider: Outrider, sandbox: Sandbox, database: str) -> dict[str, OutboxId]:
    text = message(Channel.SMS, "sms", body="An offer")
    run_id = await launch(outrider, [text], [recipient("lead-1", phone=NUMBER)])
    await work_until_terminal(outrider, run_id)
    step = WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD, submission_target="sms")
    rule = WrittenRule("signed_up", Channel.SMS, "lead", steps=(step,))
    await outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], "test", prune=False)
    office = Office(outrider, sandbox, database, outrider.clock)
    await office.routed("signed_up", subject={"lead": {"id": "lead-2", "phone": NUMBER}})
    given = Submission("order-1", "sms", {"to": NUMBER, "message": "Paid"})
    await outrider.submissions.submit(DEFAULT_SCOPE, given)
    return await items(database)


async def told(outrider: Outrider, *reports: MessageReport) -> int:
    return await outrider.store.write(message_events.append(reports, outrider.clock.now()))


async def test_events_of_messages_are_the_same_for_intents_campaigns_and_domain_events(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver) as outrider,
    ):
        by_door = await one_of_each(outrider, sandbox, database)
        assert set(by_door) == {"campaign", "workflow", "intent"}
        kinds = [each for each in MessageEventType if not each.startswith("Intent")]
        reports = [
            MessageReport(item, event, WHEN, event is ReceiptEvent.BOUNCED, "mailbox full", "r-1")
            for item in by_door.values()
            for event in ReceiptEvent
        ]
        assert await told(outrider, *reports) == len(reports)
        async with working(outrider):
            await until(lambda: len(of_messages(receiver)) == len(reports))
    heard = of_messages(receiver)
    for origin, item in by_door.items():
        mine = [event for event in heard if event["subject"] == item]
        assert [event["data"]["origin"] for event in mine] == [origin] * len(ReceiptEvent)
        assert sorted(event["data"]["eventType"] for event in mine) == sorted(kinds)
        assert [event["sequence"] for event in mine] == sorted(e["sequence"] for e in mine)
        for event in mine:
            assert event["type"] == f"outrider.message.{event['data']['eventType']}"
            assert event["time"] == "2026-03-04T05:06:07Z"
            assert problems("message-cloud-event", event) == []
            assert unnamed(SCHEMAS["message-event"], event["data"]) == set()
    data = {event["data"]["origin"]: event["data"] for event in heard}
    assert data["campaign"]["runId"]
    assert data["campaign"]["campaignId"]
    assert (data["intent"]["intentId"], data["intent"]["runId"]) == ("order-1", None)
    assert data["workflow"]["domainEventId"]
    bounced = [e["data"] for e in heard if e["data"]["eventType"] == "MessageBounced"]
    assert [(each["permanent"], each["reason"]) for each in bounced] == [(True, "mailbox full")] * 3
    assert NUMBER not in str(heard), "an address is nobody's business on the bus"


def of_messages(receiver: Receiver) -> list[dict[str, Any]]:
    return [event for event in receiver.heard if event["type"].startswith("outrider.message.")]


async def test_an_intents_callback_receives_its_receipts_too(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver, bus={}) as outrider,
    ):
        receiver.secret = await outrider.callback_secrets.text_of(DEFAULT_SCOPE)
        given = [
            Submission("with", "sms", {"to": NUMBER, "message": "Paid"}, callback_url=receiver.url),
            Submission("without", "sms", {"to": NUMBER, "message": "Paid"}),
        ]
        taken = await outrider.submissions.submit_each(DEFAULT_SCOPE, given)
        async with working(outrider):
            await until(lambda: len(receiver.heard) == 1)
            reports = [
                MessageReport(intent.outbox_id, ReceiptEvent.REPLIED, WHEN, text="Thanks!" * 1_000)
                for intent, _ in (each for each in taken if isinstance(each, tuple))
            ]
            assert await told(outrider, *reports) == 1, "only one of them has anybody who listens"
            await until(lambda: len(receiver.heard) == 2)
    outcome, reply = receiver.heard
    assert outcome["data"]["eventType"] == "IntentAccepted"
    assert reply["data"]["eventType"] == "MessageReplied"
    assert reply["data"]["intentId"] == "with"
    assert len(reply["data"]["text"]) == MESSAGE_WORDS_MAX_CHARACTERS


async def test_without_listeners_nothing_is_written(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver, bus={}) as outrider,
    ):
        by_door = await one_of_each(outrider, sandbox, database)
        reports = [MessageReport(each, ReceiptEvent.DELIVERED, WHEN) for each in by_door.values()]
        assert await told(outrider, *reports) == 0
        assert await told(outrider) == 0
        async with raw_sql(database) as raw:
            assert await raw.value("SELECT count(*) FROM message_events") == 0


async def test_a_window_of_reports_costs_two_statements(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver) as outrider,
    ):
        batch = [Submission(f"o-{n}", "sms", {"to": NUMBER, "message": "Hi"}) for n in range(500)]
        taken = await outrider.submissions.submit_each(DEFAULT_SCOPE, batch)
        ids = [each[0].outbox_id for each in taken if isinstance(each, tuple)]
        reports = [MessageReport(each, ReceiptEvent.DELIVERED, WHEN) for each in ids]
        script = message_events.append(reports, outrider.clock.now())
        asked: list[str] = []

        def watched() -> Any:
            rows: Any = None
            try:
                while True:
                    statement = script.send(rows)
                    asked.append(statement.name)
                    rows = yield statement
            except StopIteration as ended:
                return ended.value

        assert await outrider.store.write(watched()) == 500
        async with raw_sql(database) as raw:
            waiting = await raw.value(
                "SELECT count(*) FROM event_bus_outbox WHERE sink = 'audit@messages'"
            )
    assert asked == ["message_event_subjects", "insert_message_events"]
    assert waiting == 500


async def test_message_events_never_wait_in_the_queue_of_run_events(
    database: str, tmp_path: Path
) -> None:
    """And a sink that refuses them has dead letters that say which item they are about."""
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver) as outrider,
    ):
        by_door = await one_of_each(outrider, sandbox, database)
        await told(outrider, MessageReport(by_door["intent"], ReceiptEvent.DELIVERED, WHEN))
        refuse, accept = answer(500), answer(204)
        receiver.behave = lambda request, event: (
            refuse if event["type"].startswith("outrider.message") else accept
        )(request, event)
        (sink,) = await outrider.bus_keeper.sinks()
        assert sink.name == "audit"
        assert sink.waiting >= 1
        async with working(outrider):
            await until_letter(outrider)
            (letter,) = await outrider.bus_keeper.letters(
                DEFAULT_SCOPE, FIRST, 10, only_waiting=True
            )
            assert (letter.type, letter.outbox_id) == ("MessageDelivered", by_door["intent"])
            receiver.behave = accept
            assert await outrider.bus_keeper.redrive(DEFAULT_SCOPE, letter.id, "test") == "audit"
            await until(lambda: len(of_messages(receiver)) == 1)
        assert [e["type"] for e in receiver.heard if e["type"] == "outrider.run.RunCompleted"]


async def until_letter(outrider: Outrider) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await outrider.bus_keeper.sinks())[0].dead_letters:
                return
            await asyncio.sleep(0.01)


async def test_forgetting_a_sink_deletes_its_message_events(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as receiver,
        scene(database, tmp_path, sandbox, receiver) as outrider,
    ):
        by_door = await one_of_each(outrider, sandbox, database)
        await told(outrider, MessageReport(by_door["intent"], ReceiptEvent.DELIVERED, WHEN))
    async with opened(
        database, tmp_path, target("sms", "sms", "http://127.0.0.1:9"), limits=QUICK
    ) as outrider:
        forgotten = await outrider.bus_keeper.forget("audit", "test")
        assert forgotten.waiting >= 1
        assert await outrider.bus_keeper.sinks() == []
        async with raw_sql(database) as raw:
            assert await raw.value("SELECT count(*) FROM message_events") == 0
            assert await raw.value("SELECT count(*) FROM event_bus_outbox") == 0


@pytest.mark.parametrize("items_", [["00", "10", "20"], ["ff", "0f"]])
def test_a_message_always_uses_one_stream_and_a_workspace_uses_a_few(items_: Sequence[str]) -> None:
    workspace = DEFAULT_SCOPE.workspace_id
    ids = [OutboxId(f"01990000-0000-7000-8000-0000000000{each}") for each in items_]
    assert len({stream_of(workspace, each) for each in ids}) == 1
    everybody = {
        stream_of(workspace, OutboxId(f"01990000-0000-7000-8000-0000000000{n:02x}"))
        for n in range(256)
    }
    assert len(everybody) == STREAMS_PER_WORKSPACE


async def test_a_receipt_that_finds_its_item_reaches_sinks_and_the_callback_once(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        receiving(Receiver()) as sink,
        receiving(Receiver()) as caller,
        scene(database, tmp_path, sandbox, sink) as outrider,
        working(outrider),
    ):
        caller.secret = await outrider.callback_secrets.text_of(DEFAULT_SCOPE)
        payload = {"to": NUMBER, "message": "Paid"}
        given = Submission("order-1", "sms", payload, callback_url=caller.url)
        await outrider.submissions.submit(DEFAULT_SCOPE, given)
        await until(lambda: kinds_heard(caller) == ["IntentAccepted"])
        async with raw_sql(database) as raw:
            ((reference,),) = await raw.run("SELECT idempotency_key FROM ledger_by_key")
        report = Receipt(
            "r-1", ReceiptEvent.BOUNCED, reference=str(reference), permanent=True, reason="gone"
        )
        for _ in range(2):
            await outrider.receipt_intake.take_in(DEFAULT_SCOPE, "sms", [report])
        later = replace(report, receipt_id="r-2", event=ReceiptEvent.COMPLAINED)
        await outrider.receipt_intake.take_in(DEFAULT_SCOPE, "sms", [later])
        both = ["MessageBounced", "MessageComplained"]
        await until(lambda: kinds_heard(sink) == both)
        await until(lambda: kinds_heard(caller) == ["IntentAccepted", *both])


def kinds_heard(receiver: Receiver) -> list[str]:
    return [event["data"]["eventType"] for event in receiver.heard]

"""Callbacks: whoever submits an intent hears what became of it, signed, whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.bootstrap import Outrider
from outrider.domain.bus_queues import CALLBACKS
from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, Scope
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.bus_letters import LetterRecord
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.testing.launches import target
from tests.support.bus_receiver import Receiver, answer, receiving
from tests.support.controls import PATIENCE_SECONDS, until
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened, working
from tests.unit.test_schemas import SCHEMAS, problems, unnamed

QUICK = replace(
    IMPATIENT, bus_poll_seconds=0.02, message_queue_poll_seconds=0.02, bus_max_attempts=2
)
TEXT = {"to": "+447700900123", "message": "On its way"}


@asynccontextmanager
async def scene(
    database: str, folder: Path, sandbox: Sandbox, **terms: Any
) -> AsyncIterator[tuple[Outrider, Receiver]]:
    """Outrider with one target, and somebody who wants to hear of intents."""
    entry = target("sms", "sms", sandbox.http_url, **terms)
    async with opened(
        database, folder, entry, limits=QUICK, allow_private_callbacks=True, targets={}
    ) as outrider:
        secret = await outrider.callback_secrets.text_of(DEFAULT_SCOPE)
        async with receiving(Receiver(secret=secret)) as receiver:
            yield outrider, receiver


async def submit(
    outrider: Outrider,
    receiver: Receiver,
    intent_id: str = "order-1",
    scope: Scope = DEFAULT_SCOPE,
    to: str = TEXT["to"],
) -> OutboxId:
    given = Submission(intent_id, "sms", TEXT | {"to": to}, callback_url=receiver.url)
    intent, _ = await outrider.submissions.submit(scope, given)
    return intent.outbox_id


async def letters(outrider: Outrider) -> list[LetterRecord]:
    return await outrider.bus_keeper.letters(DEFAULT_SCOPE, FIRST, 100, only_waiting=True)


async def left(database: str) -> tuple[int, int]:
    """What waits on the bus, and how many message events there are at all."""
    async with raw_sql(database) as raw:
        waiting = await raw.value("SELECT count(*) FROM event_bus_outbox")
        return waiting, await raw.value("SELECT count(*) FROM message_events")


async def eventually(reached: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await reached():
                return
            await asyncio.sleep(0.01)


async def until_left(database: str, wanted: tuple[int, int]) -> None:
    async def reached() -> bool:
        return await left(database) == wanted

    await eventually(reached)


async def until_letters(outrider: Outrider, count: int) -> None:
    async def reached() -> bool:
        return len(await letters(outrider)) == count

    await eventually(reached)


async def test_an_accepted_intent_is_published_once_signed_and_then_forgotten(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        working(outrider),
    ):
        outbox_id = await submit(outrider, receiver)
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission("silent", "sms", TEXT))
        await until(lambda: len(receiver.heard) == 1)
        assert receiver.refused == 0
        (event,) = receiver.heard
        await until_left(database, (0, 0))
    assert event["type"] == "outrider.intent.IntentAccepted"
    assert (event["subject"], event["partitionkey"]) == (outbox_id, outbox_id)
    told = event["data"]
    assert (told["intentId"], told["status"], told["finalOutcome"], told["itemStatus"]) == (
        "order-1", "ACCEPTED", "accepted", "sent",
    )  # fmt: skip
    assert (told["inDoubt"], told["wasInDoubt"], told["attempts"]) == (False, False, 1)
    assert told["contractVersion"] == CONTRACT_VERSION
    assert problems("message-cloud-event", event) == []
    assert unnamed(SCHEMAS["message-cloud-event"], event) == set()
    assert unnamed(SCHEMAS["message-event"], told) == set()


@pytest.mark.parametrize(
    ("terms", "kind", "why"),
    [
        ({"terminal_outcomes": ["invalid_recipient"]}, "IntentRejected", "finalOutcome"),
        ({"policy": "one_shot"}, "IntentExhausted", "exhaustedReason"),
    ],
)
async def test_a_refused_intent_is_reported_with_its_reason(
    database: str, tmp_path: Path, terms: dict[str, Any], kind: str, why: str
) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox, **terms) as (outrider, receiver),
        working(outrider),
    ):
        await submit(outrider, receiver, to="nobody")
        await until(lambda: len(receiver.heard) == 1)
    (event,) = receiver.heard
    assert event["data"]["eventType"] == kind
    assert event["data"][why] is not None
    assert event["data"]["itemStatus"] == "failed"


async def test_an_opted_out_recipient_is_a_rejection_that_is_reported(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
    ):
        how = OptOut("asked", SuppressionSource.API)
        await outrider.suppression_keeper.add(DEFAULT_SCOPE, "sms", [TEXT["to"]], how, "test")
        async with working(outrider):
            await submit(outrider, receiver)
            await until(lambda: len(receiver.heard) == 1)
    (event,) = receiver.heard
    assert event["data"]["eventType"] == "IntentRejected"
    assert (event["data"]["finalOutcome"], event["data"]["itemStatus"]) == ("suppressed", "skipped")


async def test_a_doubt_is_published_and_so_is_what_settles_it(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(drop_rate=1.0, dedupe=False)) as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        working(outrider),
    ):
        outbox_id = await submit(outrider, receiver)
        await until(lambda: len(receiver.heard) == 1)
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, outbox_id, DoubtVerdict.SENT, "the provider's export", "test", force=True
        )
        await until(lambda: len(receiver.heard) == 2)
    doubt, settled = (event["data"] for event in receiver.heard)
    assert (doubt["eventType"], doubt["inDoubt"], doubt["status"]) == (
        "IntentInDoubt", True, "PENDING",
    )  # fmt: skip
    assert (settled["eventType"], settled["wasInDoubt"], settled["inDoubt"]) == (
        "IntentAccepted", True, False,
    )  # fmt: skip
    assert receiver.heard[0]["sequence"] < receiver.heard[1]["sequence"]


async def test_an_outcome_and_its_event_are_one_commit(database: str, tmp_path: Path) -> None:
    """Whoever writes an outcome, by whatever statement: both are there, or neither is."""
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
    ):
        await submit(outrider, receiver)
        ended = (
            "UPDATE channel_outbox SET status = 'failed', intent_status = 'EXHAUSTED',"
            " exhausted_reason = 'max_attempts', next_attempt_at = NULL"
        )
        async with raw_sql(database) as raw:
            await raw.run("BEGIN")
            await raw.run(ended)
            assert await raw.value("SELECT count(*) FROM event_bus_outbox") == 1
            await raw.run("ROLLBACK")
            assert await raw.value("SELECT count(*) FROM event_bus_outbox") == 0
            await raw.run(ended)
            found = await raw.run("SELECT sink FROM event_bus_outbox")
    assert [row[0] for row in found] == [CALLBACKS]
    assert receiver.heard == []


async def test_a_callback_that_fails_is_tried_again_then_a_dead_letter_and_can_be_redriven(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        working(outrider),
    ):
        receiver.behave = answer(503)
        await submit(outrider, receiver)
        await until_letters(outrider, 1)
        (letter,) = await letters(outrider)
        assert (letter.sink, letter.type, letter.attempts, letter.error) == (
            CALLBACKS, "IntentAccepted", 2, "http_503",
        )  # fmt: skip
        assert len(receiver.asked) == 2
        assert len(set(receiver.asked)) == 1
        receiver.behave = answer(204)
        await outrider.bus_keeper.redrive(DEFAULT_SCOPE, letter.id, "test")
        await until(lambda: len(receiver.heard) == 1)
        assert receiver.ids == receiver.asked[:1]


async def test_a_redirect_is_a_failure_and_nobody_follows_it(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        working(outrider),
    ):
        receiver.behave = answer(307, Location="/elsewhere")
        await submit(outrider, receiver)
        await until_letters(outrider, 1)
        assert [each.error for each in await letters(outrider)] == ["http_307"]
        assert receiver.elsewhere == 0


async def test_an_address_that_answered_410_is_not_called_until_a_redrive(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        receiving(Receiver(secret=receiver.secret)) as other,
        working(outrider),
    ):
        receiver.behave = answer(410)
        await submit(outrider, receiver, "first")
        await until_letters(outrider, 1)
        await submit(outrider, receiver, "second")
        await submit(outrider, other, "elsewhere")
        await until_letters(outrider, 2)
        assert [each.error for each in await letters(outrider)] == ["http_410", "endpoint_gone"]
        assert len(receiver.asked) == 1
        await until(lambda: len(other.heard) == 1)
        receiver.behave = answer(204)
        assert await outrider.bus_keeper.redrive_all(DEFAULT_SCOPE, "test") == 2
        await until(lambda: len(receiver.heard) == 2)


async def test_a_dead_address_does_not_hold_up_the_others(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        receiving(Receiver(secret=receiver.secret)) as dead,
        working(outrider),
    ):
        dead.behave = answer(500)
        for number in range(30):
            await submit(outrider, dead, f"dead-{number}")
            await submit(outrider, receiver, f"order-{number}")
        await until(lambda: len(receiver.heard) == 30)
        assert {event["data"]["intentId"] for event in receiver.heard} == {
            f"order-{number}" for number in range(30)
        }


async def test_a_private_address_is_refused_at_the_connection(
    database: str, tmp_path: Path
) -> None:
    """A name says nothing of where it leads, so the very address is judged, at every call."""
    async with Sandbox() as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        async with (
            receiving(Receiver()) as receiver,
            opened(
                database, tmp_path, entry, limits=QUICK, allow_private_callbacks=False
            ) as outrider,
            working(outrider),
        ):
            port = receiver.url.rpartition(":")[2].removesuffix("/hook")
            url = f"https://localhost:{port}/hook"
            given = Submission("order-1", "sms", TEXT, callback_url=url)
            await outrider.submissions.submit(DEFAULT_SCOPE, given)
            await until_letters(outrider, 1)
            assert [each.error for each in await letters(outrider)] == ["address_refused"]
            with pytest.raises(InvalidInput) as refused:
                await submit(outrider, receiver, "order-2")
            assert [each.path for each in refused.value.problems] == ["callbackUrl"]


async def test_each_workspace_signs_with_its_own_secret(database: str, tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
        working(outrider),
    ):
        other = await outrider.key_keeper.open_workspace("other", "project", "production")
        theirs = await outrider.callback_secrets.text_of(other)
        assert theirs != receiver.secret
        async with receiving(Receiver(secret=theirs)) as their_receiver:
            await submit(outrider, their_receiver, scope=other)
            await until(lambda: len(their_receiver.heard) == 1)
        assert their_receiver.refused == 0


async def test_a_slow_address_is_called_a_few_times_at_once_and_in_order_for_each_item(
    database: str, tmp_path: Path
) -> None:
    at_once = most = 0

    async def slowly(_request: web.Request, _event: dict[str, Any]) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await until(lambda: at_once == 4 or len(receiver.asked) >= 12)
        at_once -= 1
        return web.Response(status=204)

    async with (
        Sandbox() as sandbox,
        scene(database, tmp_path, sandbox) as (outrider, receiver),
    ):
        receiver.behave = lambda request, event: slowly(request, event)
        async with raw_sql(database) as raw:
            for number in range(12):
                await submit(outrider, receiver, f"order-{number}")
            await raw.run(
                "UPDATE channel_outbox SET status = 'failed', intent_status = 'EXHAUSTED',"
                " exhausted_reason = 'max_attempts', next_attempt_at = NULL"
            )
        async with working(outrider):
            await until(lambda: len(receiver.heard) == 12)
    assert most == 4

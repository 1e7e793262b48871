"""Opt-outs at the one way out (audit A8): who opted out is not called, through whichever door."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider, make_store
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.recipients import recipient
from outrider.domain.retry import RetrySchedule
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, suppressions
from outrider.ports.clock import Clock
from outrider.ports.stages import Stage, Unobserved
from outrider.ports.store import Store
from outrider.testing.launches import launch, message, target
from tests.support.eventually import eventually
from tests.support.provider_targets import PLANTED, TARGETS
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, opened, working
from tests.support.workflows import TO_LEAD, Office

PATIENCE_SECONDS = 60
TARGET = "sms.main"
TEXT = message(Channel.SMS, TARGET, body="Hi")
STOP = OptOut("said STOP", SuppressionSource.STOP)

NOBODY, LEFT, LEFT_NEWS, BOUNCED, NO_NEWS_AT_ALL = (f"+4477009000{each:02d}" for each in range(5))
OPT_OUTS = {
    LEFT: OptOut("unsubscribed", SuppressionSource.UNSUBSCRIBE),
    LEFT_NEWS: OptOut("unsubscribed", SuppressionSource.UNSUBSCRIBE, topic="news"),
    BOUNCED: OptOut("no such number", SuppressionSource.BOUNCE),
    NO_NEWS_AT_ALL: OptOut("asked by phone", topic="news", include_transactional=True),
}
HELD_BACK = {
    Purpose(): {LEFT, BOUNCED},
    Purpose("other"): {LEFT, BOUNCED},
    Purpose("news"): {LEFT, LEFT_NEWS, BOUNCED, NO_NEWS_AT_ALL},
    Purpose(transactional=True): {BOUNCED},
    Purpose("news", transactional=True): {BOUNCED, NO_NEWS_AT_ALL},
}
EVERYBODY = {NOBODY, *OPT_OUTS}


async def opt_out(
    outrider: Outrider, address: str, how: OptOut = STOP, channel: str = "sms"
) -> None:
    await outrider.suppression_keeper.add(DEFAULT_SCOPE, channel, [address], how, "test")


async def rows_of(database: str) -> list[tuple[Any, ...]]:
    async with raw_sql(database) as raw:
        return await raw.run(
            "SELECT recipient_address, topic, transactional, status, reason, intent_status,"
            " attempts, origin, doubted_at IS NOT NULL FROM channel_outbox"
        )


async def until(reached: Callable[[], Any]) -> None:
    await eventually(reached, seconds=PATIENCE_SECONDS)


async def until_ended(database: str, rows: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []

    async def ended() -> bool:
        found[:] = await rows_of(database)
        return len(found) == rows and all(row[3] != "queued" or row[8] for row in found)

    await until(ended)
    return found


async def submitted(
    outrider: Outrider, intent_id: str, to: str, purpose: Purpose = UNSTATED
) -> None:
    given = Submission(intent_id, TARGET, {"to": to, "message": "Hi"}, purpose=purpose)
    await outrider.submissions.submit(DEFAULT_SCOPE, given)


async def launched(outrider: Outrider, to: set[str], purpose: Purpose = UNSTATED) -> RunId:
    people = [recipient(address, phone=address) for address in sorted(to)]
    return await launch(outrider, [replace(TEXT, purpose=purpose)], people)


async def emitted(office: Office, to: set[str], purpose: Purpose = UNSTATED) -> None:
    trigger = f"on_{purpose.topic}_{purpose.transactional}".lower()
    step = WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD, submission_target=TARGET)
    rule = WrittenRule(trigger, Channel.SMS, "lead", steps=(step,), purpose=purpose)
    await office.outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], "test", prune=False)
    for address in sorted(to):
        await office.emit(trigger, subject={"lead": {"id": address, "phone": address}})


async def sent_through(door: str, outrider: Outrider, sandbox: Sandbox, database: str) -> None:
    """Every kind of message to everybody."""
    office = Office(outrider, sandbox, database, outrider.clock)
    for number, purpose in enumerate(HELD_BACK):
        match door:
            case "campaign":
                await launched(outrider, EVERYBODY, purpose)
            case "workflow":
                await emitted(office, EVERYBODY, purpose)
            case _:
                for address in EVERYBODY:
                    await submitted(outrider, f"{number}-{address}", address, purpose)


@pytest.mark.parametrize("door", ["campaign", "intent", "workflow"])
async def test_an_opt_out_applies_to_its_topic_or_channel_through_every_door(
    database: str, tmp_path: Path, door: str
) -> None:
    """A8: one opt-out neither fails to hold for intents nor silences what it does not name."""
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, target(TARGET, "sms", sandbox.http_url)) as outrider,
    ):
        for address, how in OPT_OUTS.items():
            await opt_out(outrider, address, how)
        await sent_through(door, outrider, sandbox, database)
        async with working(outrider):
            rows = await until_ended(database, len(HELD_BACK) * len(EVERYBODY))
    held: dict[Purpose, set[str]] = {purpose: set() for purpose in HELD_BACK}
    for address, topic, transactional, status, reason, *_ in rows:
        if status == "skipped":
            assert reason == "suppressed"
            held[Purpose(topic, bool(transactional))].add(address)
        else:
            assert status == "sent"
    assert held == HELD_BACK
    assert sandbox.requests == sum(row[3] == "sent" for row in rows)


@pytest.mark.parametrize(
    ("kind", "opted_out", "payload"),
    [
        ("sms", "+447700900123", {"to": "+44 7700 900-123", "message": "Hi"}),
        ("push", "token-1", {"token": "token-1", "title": "Hi", "body": "you"}),
        ("smtp", "ada@example.test", {"to": "Ada@Example.TEST", "subject": "s", "body": "Hi"}),
        ("resend", "ada@example.test", {"to": "Ada <ADA@example.test>", "body": "Hi"}),
        ("twilio_sms", "+447700900123", {"to": "+447700900123", "body": "Hi"}),
        ("whatsapp_cloud", "+447700900123", {"to": "+447700900123", "body": "Hi"}),
        ("fcm", "token-1", {"to": "token-1", "subject": "Hi", "body": "you"}),
    ],
)
async def test_an_intent_is_known_by_the_address_in_its_payload_however_it_is_spelt(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    opted_out: str,
    payload: Mapping[str, Any],
) -> None:
    """A8: REJECTED and suppressed in contract 001's words, and no socket is opened for it."""
    monkeypatch.setenv("PLANTED", PLANTED)
    settings = {TARGET: TARGETS[kind]}
    async with Sandbox() as sandbox:
        url = sandbox.smtp_url if kind == "smtp" else sandbox.http_url
        async with opened(
            database, tmp_path, target(TARGET, kind, url), targets=settings
        ) as outrider:
            channel = GATEWAY_TYPES[kind].channel.value
            await opt_out(outrider, opted_out, channel=channel)
            given = Submission("order-1", TARGET, payload, purpose=Purpose("orders"))
            await outrider.submissions.submit(DEFAULT_SCOPE, given)
            async with working(outrider):
                await until_ended(database, 1)
            intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "order-1")
            item = await outrider.store.read(ledger_items.item(DEFAULT_SCOPE, intent.outbox_id))
            contract = await outrider.submissions.contract_of(intent)
        told = intent_document(intent, attempts, contract)
        assert (told["status"], told["finalOutcome"], told["attempts"]) == (
            "REJECTED", "suppressed", [],
        )  # fmt: skip
        assert (told["topic"], told["transactional"]) == ("orders", False)
        assert (item.status, item.intent_status, item.attempts) == ("skipped", "REJECTED", 0)
        assert explain_item(item, attempts)[0] == (
            "order-1 was skipped before any call: the address has opted out of the topic"
            " 'orders', or of the channel."
        )
        assert sandbox.requests == 0


async def test_an_intent_without_a_recognisable_address_is_called(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        opened(
            database, tmp_path, target(TARGET, "sms", sandbox.http_url, maxAttempts=1)
        ) as outrider,
    ):
        await opt_out(outrider, "+447700900123")
        await submitted(outrider, "national", "07700 900123")
        async with working(outrider):
            ((address, _, _, _, reason, *_),) = await until_ended(database, 1)
    assert (address, reason) == (None, "invalid_recipient")
    assert sandbox.requests == 1


@pytest.mark.parametrize("door", ["campaign", "intent", "workflow"])
async def test_an_opt_out_while_an_item_waits_for_its_next_attempt_wins(
    database: str, tmp_path: Path, door: str
) -> None:
    """A8: a repeat after an opt-out between two attempts is not called."""
    clock = SteppedClock(datetime(2026, 1, 1, 12, tzinfo=UTC))
    async with (
        Sandbox(Faults(fail_rate=1.0)) as sandbox,
        opened(
            database, tmp_path, target(TARGET, "sms", sandbox.http_url), clock=clock
        ) as outrider,
    ):
        if door == "intent":
            await submitted(outrider, "order-1", NOBODY)
        elif door == "campaign":
            await launched(outrider, {NOBODY})
        else:
            await emitted(Office(outrider, sandbox, database, clock), {NOBODY})
        later = RetrySchedule(first_seconds=600)

        async def waits() -> bool:
            await clock.step(0.05)
            rows = await rows_of(database)
            return [(row[6], row[4]) for row in rows] == [(1, "provider_failure")]

        async def ended() -> bool:
            await clock.step(30)
            return [row[3] for row in await rows_of(database)] == ["skipped"]

        async with working(outrider, retry=later):
            await until(waits)
            await opt_out(outrider, NOBODY)
            await until(ended)
        ((*_, status, reason, judged, attempts, _, _),) = await rows_of(database)
    assert (status, reason, attempts) == ("skipped", "suppressed", 1)
    assert judged == ("REJECTED" if door == "intent" else None)
    assert sandbox.requests == 1


WORKERS = 10
JOBS, BATCH, INTENTS, LEAVING = 20, 10, 100, 6


class Beside:
    """Opt-outs of another process: a store of its own in a thread of its own. Whoever asks for one
    waits until it is committed."""

    def __init__(self, database: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._store: Store = self._done(self._made(database))

    async def _made(self, database: str) -> Store:
        return make_store(database)

    def _done(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def opt_out(self, addresses: list[str]) -> None:
        now = datetime.now(UTC)
        self._done(
            self._store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", addresses, STOP, now))
        )

    def close(self) -> None:
        self._done(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def beside(database: str) -> Iterator[Beside]:
    made = Beside(database)
    yield made
    made.close()


@dataclass
class LastMoment(Unobserved):
    """Opts somebody out immediately before each opening, and notes when that was committed."""

    opt_outs: Beside
    clock: Clock
    """The workers' own: the database's time as they know it differs a little from the machine's."""
    addresses: dict[Stage, list[str]]
    """Of those whose attempts are opened by each stage: of campaigns, and of intents."""
    left_at: dict[str, datetime] = field(default_factory=dict)

    def before(self, stage: Stage) -> None:
        staying = self.addresses.get(stage)
        if staying:
            leaving = [staying.pop() for _ in range(min(LEAVING, len(staying)))]
            self.opt_outs.opt_out(leaving)
            self.left_at |= dict.fromkeys(leaving, self.clock.now())


async def test_an_opt_out_that_is_committed_before_an_opening_always_wins(
    database: str, tmp_path: Path
) -> None:
    """A8: ten workers open campaign items and intents while their recipients leave. An attempt's
    moment is taken before its statement is sent, so one that is later than a commit saw it."""
    people = [f"+4478{number:08d}" for number in range(JOBS * BATCH)]
    clients = [f"+4479{number:08d}" for number in range(INTENTS)]
    chance = random.Random(8)
    leaving = {
        Stage.RESERVE: chance.sample(people, len(people)),
        Stage.OPEN: chance.sample(clients, len(clients)),
    }
    with beside(database) as opt_outs:
        async with (
            Sandbox() as sandbox,
            opened(
                database, tmp_path, target(TARGET, "sms", sandbox.http_url, maxAttempts=1)
            ) as outrider,
        ):
            recipients = [recipient(each, phone=each) for each in people]
            await launch(outrider, [TEXT], recipients, batch_size=BATCH)
            for number, address in enumerate(clients):
                await submitted(outrider, f"intent-{number}", address)
            watch = LastMoment(opt_outs, outrider.clock, leaving)
            async with AsyncExitStack() as crew:
                for number in range(WORKERS):
                    await crew.enter_async_context(
                        working(outrider, observer=watch, worker_id=WorkerId(f"worker-{number}"))
                    )
                await until_ended(database, len(people) + len(clients))
    async with raw_sql(database) as raw:
        rows = await raw.run(
            "SELECT recipient_address, status, attempt_opened_at, origin FROM channel_outbox"
        )
    called_late = [
        (address, opened_at)
        for address, status, opened_at, _ in rows
        if status == "sent" and address in watch.left_at
        and _moment(opened_at) > watch.left_at[address]
    ]  # fmt: skip
    assert called_late == []
    assert {(row[1], row[3]) for row in rows} == {
        (status, origin) for status in ("sent", "skipped") for origin in ("campaign", "intent")
    }
    assert sandbox.requests == sum(row[1] == "sent" for row in rows)


def _moment(stored: datetime | str) -> datetime:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored


async def test_a_suppression_that_reaches_further_replaces_the_one_that_was_there(
    store: Store,
) -> None:
    """A8: an address that unsubscribed and then bounces gets no transactional message either."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    unsubscribed = OptOut("unsubscribed", SuppressionSource.UNSUBSCRIBE, "a link")
    bounced = OptOut("no mailbox", SuppressionSource.BOUNCE, "550 5.1.1")
    counted = []
    for number, each in enumerate((unsubscribed, unsubscribed, bounced, unsubscribed)):
        counted.append(
            await store.write(
                suppressions.suppress(
                    DEFAULT_SCOPE, "email", ["Ada@example.test"], each, now + timedelta(number)
                )
            )
        )
    (kept,) = await store.read(suppressions.page(DEFAULT_SCOPE, suppressions.FIRST, 10))
    assert counted == [1, 0, 1, 0]
    assert (kept.source, kept.evidence, kept.includes_transactional, kept.created_at) == (
        SuppressionSource.BOUNCE, "550 5.1.1", True, now + timedelta(2),
    )  # fmt: skip

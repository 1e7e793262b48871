"""The way back, end to end: a real server sends, a provider reports, and everybody who should not
be written to again is not."""

import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId
from outrider.domain.suppressions import Suppression, SuppressionSource
from outrider.gateways.sandbox import Faults, ReceiptPlan, Sandbox
from outrider.gateways.sandbox_receipts import standard_post
from outrider.kernel.transactions import deliveries, ledger_items, receipts, suppressions
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.receipts import StoredReceipt
from outrider.ports.store import Store
from outrider.testing.launches import target
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.eventually import eventually
from tests.support.receipt_targets import SECRET
from tests.support.receipt_witness import ReceiptWitness

TARGET = "sms.main"
RECIPIENTS, INTENTS, MOST = 200, 20, 2_000
STRONGEST_FIRST = ("complained", "replied", "bounced", "delivered")
SOURCES = {
    "complained": SuppressionSource.COMPLAINT,
    "replied": SuppressionSource.STOP,
    "bounced": SuppressionSource.BOUNCE,
}
MIXED = ReceiptPlan(
    secret=SECRET, bounce_rate=0.1, complaint_rate=0.03, stop_rate=0.1, delay_ms=30,
    repeat_rate=0.3, reorder_rate=0.5, forged_rate=0.3, batch=10,
)  # fmt: skip
EVERYTHING_ARRIVES = ReceiptPlan(secret=SECRET)


class AnswersLast(Sandbox):
    """A provider that answers a call when all its reports so far are known to the server."""

    witness: ReceiptWitness

    async def wait(self) -> None:
        await eventually(lambda: len(self.witness.taken) >= self.requests)


@dataclass(frozen=True)
class WayBack:
    """A server, the provider that it sends through, and what the provider posts to it."""

    server: ApiServer
    sandbox: Sandbox
    witness: ReceiptWitness
    store: Store

    async def launched(self, recipients: int = RECIPIENTS) -> str:
        message = {"id": "offer", "channel": "sms", "submissionTarget": TARGET, "body": "Hi"}
        created = await self.server.post("/campaigns", campaign(recipients, messages=[message]))
        campaign_id: str = created["campaignId"]
        await self.server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        return campaign_id

    async def completed(self, campaign_id: str) -> list[Item]:
        """The items of its launch, which has ended."""
        path = f"/campaigns/{campaign_id}/status"

        async def is_completed() -> bool:
            launch = (await self.server.get(path))["phases"]["launch"]
            return bool(launch["state"] == "completed")

        await eventually(is_completed, what="the launch did not end")
        run_id = RunId((await self.server.get(path))["phases"]["launch"]["runId"])
        return await self.store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))

    async def submitted(self, count: int) -> list[OutboxId]:
        found = []
        for number in range(count):
            body = {
                "intentId": f"i-{number}", "submissionTarget": TARGET,
                "payload": {"to": f"+44780000{number:04d}", "message": "Hi"},
            }  # fmt: skip
            found.append(OutboxId((await self.server.post("/intents", body))["outboxId"]))
        return found

    async def until_reported(self, sent: int) -> None:
        """So many messages were delivered, and all that is to be said of them was matched."""
        assert self.sandbox.emitter is not None
        emitter = self.sandbox.emitter

        async def is_over() -> bool:
            if self.sandbox.deliveries.total() < sent or emitter.summary()["waiting"]:
                return False
            return all(each.outbox_id for each in (await self.stored()).values())

        await eventually(is_over, what="not every receipt found its message")

    async def stored(self) -> dict[str, StoredReceipt]:
        found = await self.store.read(receipts.page(DEFAULT_SCOPE, None, MOST))
        return {f"receipt {each.id}": each for each in found}

    async def delivery_states(self, ids: list[OutboxId]) -> dict[OutboxId, str]:
        found = await self.store.read(deliveries.of_items(ids))
        return {outbox_id: delivery.state.value for outbox_id, delivery in found.items()}

    async def suppressed(self) -> dict[str, Suppression]:
        page = suppressions.page(DEFAULT_SCOPE, suppressions.FIRST, MOST)
        return {each.address: each for each in await self.store.read(page)}

    def reported(self) -> dict[str, str]:
        """What the provider truly said of each reference, the strongest of it."""
        said: dict[str, set[str]] = defaultdict(set)
        for post in self.witness.posts:
            if post.status == 200:
                for each in post.receipts:
                    said[each["referenceId"]].add(each["event"])
        return {
            reference: next(event for event in STRONGEST_FIRST if event in events)
            for reference, events in said.items()
        }

    async def replied(self, address: str, text: str) -> int:
        """As a message that somebody wrote on their own: it answers none of ours."""
        told = {
            "receiptId": f"reply-{address}-{text}", "event": "replied", "from": address,
            "text": text,
        }  # fmt: skip
        body = json.dumps({"receipts": [told]}).encode()
        post = standard_post(self.receipts_url, body, "application/json", SECRET, datetime.now(UTC))
        async with (
            aiohttp.ClientSession() as session,
            session.post(post.url, data=post.body, headers=post.headers) as answer,
        ):
            return answer.status

    @property
    def receipts_url(self) -> str:
        return f"{self.server.url}/receipts/{TARGET}"


@asynccontextmanager
async def way_back(
    store: Store,
    database: str,
    folder: Path,
    plan: ReceiptPlan,
    kind: type[Sandbox] = Sandbox,
    **more: object,
) -> AsyncIterator[WayBack]:
    (folder / "secret").write_text(SECRET)
    settings = {
        TARGET: {
            "remembers_references": "for_good",
            "credentials": {"receiptsSecret": f"file:{folder}/secret"},
            **more,
        }
    }
    faults = Faults(seed=random.randrange(2**32))
    async with (
        ReceiptWitness() as witness,
        kind(faults, receipts=replace(plan, url=witness.url)) as sandbox,
        running_server(
            folder,
            database=database,
            targets=(target(TARGET, "sms", sandbox.http_url),),
            environment={"OUTRIDER_TARGETS": json.dumps(settings)},
        ) as server,
    ):
        if isinstance(sandbox, AnswersLast):
            sandbox.witness = witness
        made = WayBack(server, sandbox, witness, store)
        witness.forward_to = made.receipts_url
        print("seed", faults.seed)
        yield made


async def test_receipts_reach_their_messages_and_people_who_opted_out_are_not_contacted(
    store: Store, database: str, tmp_path: Path
) -> None:
    # The confirmations would have receipts of their own, among them bounces.
    unanswered = {"stop": False}
    async with way_back(store, database, tmp_path, MIXED, answers=unanswered) as way:
        campaign_id = await way.launched()
        intents = await way.submitted(INTENTS)
        await way.until_reported(RECIPIENTS + INTENTS)
        addressed = await way.completed(campaign_id)
        items = addressed + await store.read(ledger_items.items(DEFAULT_SCOPE, intents))
        assert [item.status for item in items] == ["sent"] * (RECIPIENTS + INTENTS)

        await assert_forged_ones_were_refused(way)
        reported = way.reported()
        assert await way.delivery_states([item.id for item in items]) == {
            item.id: reported[item.reference] for item in items
        }
        await assert_suppressed_with_evidence(way, items, reported)
        await somebody_comes_back(way, items, reported)

        suppressed = await way.suppressed()
        assert way.sandbox.emitter is not None
        way.sandbox.emitter.plan = replace(EVERYTHING_ARRIVES, url=way.witness.url)
        second = await way.completed(await way.launched())
        everybody = {item.address for item in addressed}
        left_out = everybody & set(suppressed)
        sent = {item.address for item in second if item.status == "sent"}
        assert sent == everybody - left_out
        assert {(item.address, item.reason) for item in second if item.status == "skipped"} == {
            (address, "suppressed") for address in left_out
        }


async def assert_forged_ones_were_refused(way: WayBack) -> None:
    assert way.sandbox.emitter is not None
    counts = way.sandbox.emitter.summary()
    assert counts["forged"] > 0
    assert counts["repeated"] > 0
    assert counts.get("forgedTaken", 0) == 0
    refused = [each for post in way.witness.posts if post.status == 401 for each in post.receipts]
    assert len(refused) == counts["forged"] == counts["forgedRefused"]
    assert {each["event"] for each in refused} == {"bounced"}
    kept = {each.receipt_id for each in (await way.stored()).values()}
    assert kept == way.witness.taken
    assert not kept & {each["receiptId"] for each in refused}


async def assert_suppressed_with_evidence(
    way: WayBack, items: list[Item], reported: dict[str, str]
) -> None:
    by_address = {str(item.address): item for item in items}
    found = await way.suppressed()
    wanted = {
        address: SOURCES[reported[item.reference]]
        for address, item in by_address.items()
        if reported[item.reference] in SOURCES
    }
    assert set(wanted.values()) >= {SuppressionSource.BOUNCE, SuppressionSource.STOP}
    assert {address: each.source for address, each in found.items()} == wanted
    stored = await way.stored()
    for address, each in found.items():
        evidence = stored[str(each.evidence)]
        assert evidence.outbox_id == by_address[address].id
        assert SOURCES[evidence.event.value] is each.source


async def somebody_comes_back(way: WayBack, items: list[Item], reported: dict[str, str]) -> None:
    """START of somebody who had written STOP, and of somebody whose number does not exist."""
    back = next(str(item.address) for item in items if reported[item.reference] == "replied")
    gone = next(str(item.address) for item in items if reported[item.reference] == "bounced")
    for address in (gone, back):
        assert await way.replied(address, "START") == 200

    async def is_back() -> bool:
        return back not in await way.suppressed()

    await eventually(is_back, what="START did not lift STOP")
    assert gone in await way.suppressed()


async def test_a_reply_of_stop_and_of_help_is_answered_once_without_any_setting(
    store: Store, database: str, tmp_path: Path
) -> None:
    async with way_back(store, database, tmp_path, EVERYTHING_ARRIVES) as way:
        await way.submitted(1)
        await way.until_reported(1)
        for text in ("HELP", "help", "STOP", "Stop!"):
            assert await way.replied("+447800000000", text) == 200

        async def intents() -> dict[str, str]:
            page = await way.server.get("/intents?limit=10")
            return {each["intentId"].split("-answer-")[0]: each["status"] for each in page["items"]}

        async def are_answered() -> bool:
            return await intents() == dict.fromkeys(("i-0", "help", "stop"), "ACCEPTED")

        await eventually(are_answered)
        # Each of the three reached the provider once, and nothing else did.
        assert way.sandbox.requests == 3
        assert (await way.suppressed())["+447800000000"].source is SuppressionSource.STOP


async def test_a_receipt_that_comes_before_the_answer_to_its_call_is_matched(
    store: Store, database: str, tmp_path: Path
) -> None:
    async with way_back(store, database, tmp_path, EVERYTHING_ARRIVES, AnswersLast) as way:
        items = await way.completed(await way.launched(50))
        await way.until_reported(50)
        assert [item.status for item in items] == ["sent"] * 50
        assert await way.delivery_states([item.id for item in items]) == {
            item.id: "delivered" for item in items
        }
        received = {each.outbox_id: each.received_at for each in (await way.stored()).values()}
        early = [item for item in items if item.closed_at and received[item.id] < item.closed_at]
        assert len(early) == 50, "some receipts came after their item was closed"

"""What providers report of the messages they took: late, twice, out of order, before our commit."""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Receipt, ReceiptEvent, fold
from outrider.testing.simulation.providers import Kind, Provider, Taken
from outrider.testing.simulation.virtual_time import moment
from outrider.testing.simulation.world import World, retried

LATEST_SECONDS = 8.0
AT_ONCE_RATE, TWICE_RATE = 0.3, 0.3
BOUNCED_RATE, READ_RATE, COMPLAINED_RATE, STOP_RATE = 0.1, 0.3, 0.05, 0.08


@dataclass
class Reporter:
    """Every provider reports if the plan says so, and one whose evidence that is always does."""

    world: World
    server: Outrider
    all_report: bool
    accepted: dict[str, dict[str, Receipt]] = field(default_factory=lambda: defaultdict(dict))
    """By the message's reference: what was taken into the inbox."""
    _open: int = 0

    @property
    def is_done(self) -> bool:
        return not self._open

    def took(self, provider: Provider, taken: Taken) -> None:
        if not self.all_report and provider.kind is not Kind.RECEIPT:
            return
        draws = random.Random(f"{self.world.seed} reports {taken.reference}")
        for number, (event, permanent) in enumerate(_drawn(draws)):
            later = 0.0 if draws.random() < AT_ONCE_RATE else draws.uniform(0.0, LATEST_SECONDS)
            receipt = _receipt(provider, taken, event, number, moment(taken.at + number))
            for _ in range(2 if draws.random() < TWICE_RATE else 1):
                self._open += 1
                given = receipt if not permanent else _permanent(receipt)
                self.world.begin(self._report(provider, taken, given, later))
                later += draws.uniform(0.0, LATEST_SECONDS)

    async def _report(
        self, provider: Provider, taken: Taken, receipt: Receipt, later: float
    ) -> None:
        await asyncio.sleep(later)
        intake = self.server.receipt_intake
        await retried(lambda: intake.take_in(DEFAULT_SCOPE, provider.name, [receipt]))
        self.accepted[taken.reference][receipt.receipt_id] = receipt
        self._open -= 1

    def check(self) -> None:
        """The delivery of each item is the fold of its receipts, and the counts are their sum."""
        world = self.world
        delivered = dict(world.rows("SELECT outbox_id, state FROM deliveries"))
        matched = {receipt_id for (receipt_id,) in world.rows(
            "SELECT s.receipt_id FROM item_receipts r JOIN receipts s ON s.id = r.id"
        )}  # fmt: skip
        for provider in world.providers.values():
            if provider.kind is Kind.CONTENT:
                # Of two messages alike, nobody can say which is which.
                continue
            for reference in provider.record:
                # By a provider's own id, one is found only if we ever heard of that.
                receipts = [
                    each
                    for each in self.accepted.get(reference, {}).values()
                    if provider.kind is Kind.RECEIPT or each.receipt_id in matched
                ]
                state = fold([(each, moment(0)) for each in receipts]).state.value
                outbox_id = provider.outbox_ids[reference]
                found = delivered.get(outbox_id, "none")
                if found != state:
                    world.find(f"{outbox_id} is {found}, and its receipts say {state}")
        summed = world.rows(
            "SELECT run_id, state, count(*) FROM deliveries WHERE run_id IS NOT NULL"
            " GROUP BY 1, 2 ORDER BY 1, 2"
        )
        counted = world.rows(
            "SELECT run_id, state, items FROM run_deliveries WHERE items <> 0 ORDER BY 1, 2"
        )
        if summed != counted:
            world.find(f"the receipts of runs do not add up: {counted}, and not {summed}")


def _drawn(draws: random.Random) -> list[tuple[ReceiptEvent, bool]]:
    events = [(ReceiptEvent.DELIVERED, False)]
    for event, permanent, rate in (
        (ReceiptEvent.BOUNCED, True, BOUNCED_RATE),
        (ReceiptEvent.BOUNCED, False, BOUNCED_RATE),
        (ReceiptEvent.READ, False, READ_RATE),
        (ReceiptEvent.COMPLAINED, False, COMPLAINED_RATE),
        (ReceiptEvent.REPLIED, False, STOP_RATE),
    ):
        if draws.random() < rate:
            events.append((event, permanent))
    return events


def _receipt(
    provider: Provider, taken: Taken, event: ReceiptEvent, number: int, occurred_at: datetime
) -> Receipt:
    return Receipt(
        receipt_id=f"{taken.reference}-{number}",
        event=event,
        reference=taken.reference if provider.kind is Kind.RECEIPT else None,
        provider_message_id=taken.message_id,
        sender=taken.address if event is ReceiptEvent.REPLIED else None,
        text="STOP" if event is ReceiptEvent.REPLIED else None,
        occurred_at=occurred_at,
    )


def _permanent(receipt: Receipt) -> Receipt:
    return Receipt(
        receipt.receipt_id, receipt.event, receipt.reference, receipt.provider_message_id,
        permanent=True, occurred_at=receipt.occurred_at,
    )  # fmt: skip

"""Items that were sent, and receipts about them, on the kernel's own transactions."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId, Scope
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import Delivery, DeliveryState, Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import Verdict
from outrider.domain.suppressions import Suppression
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.receipts.receipt_intake import ReceiptIntake
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.kernel.transactions import deliveries, receipts, suppressions
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.transactions.receipt_matching import WindowOutcome
from outrider.kernel.transactions.receipts import StoredReceipt
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import ACCEPTED, CONTRACT, Workshop
from tests.support.foundations import foundation

TARGET = CONTRACT.submission_target
WORDS = {"STOP": OptOutWord.STOP, "START": OptOutWord.START, "HELP": OptOutWord.HELP}


def _shares(_target: str, workspace: WorkspaceName) -> bool:
    return workspace.tenant != "apart"


class Scene:
    """A clock that the test holds, an intake, a matcher, and a run with items."""

    def __init__(
        self,
        store: Store,
        now: datetime,
        limits: ReceiptLimits | None = None,
        shared: Collection[str] = (),
    ) -> None:
        """`shared` are targets that all workspaces but those of the tenant "apart" share."""
        self.store = store
        self.shop = Workshop(store)
        self.clock = FakeClock(now)
        self.foundation = foundation(store, clock=self.clock, ids=self.shop.ids)
        self.limits = limits or ReceiptLimits()
        self.worse: list[tuple[Scope, RunId]] = []
        self.sharers = TargetSharers(self.foundation, shared, _shares, self.limits)
        self.matcher = ReceiptMatcher(
            self.foundation, self._channel, self.sharers, self.limits, self.worse.extend
        )
        self.intake = ReceiptIntake(
            self.foundation,
            self._channel,
            lambda text: WORDS.get(text.strip().upper()),
            self.sharers,
            self.matcher.wake,
            self.limits,
        )
        self._number = 0

    @staticmethod
    def _channel(_target: str) -> Channel | None:
        return Channel.SMS

    async def sent(
        self, count: int, verdicts: Sequence[Verdict] | None = None
    ) -> tuple[RunId, JobContext, list[OutboxId]]:
        """A run of so many items, each called once; by default all were accepted, each under a
        provider's id of its own."""
        run_id = await self.shop.launch(count)
        context = await self.shop.claim_one(now=self.clock.now())
        items = await self.shop.open(context, *range(count), now=self.clock.now())
        given = verdicts or [ACCEPTED._replace(provider_message_id=f"m-{item}") for item in items]
        ends = list(zip(items, given, strict=False))
        if ends:
            await self.shop.close(context, *ends, now=self.clock.now())
        return run_id, context, items

    async def reference(self, item: OutboxId) -> str:
        return (await self.shop.item(item)).reference

    async def take(
        self,
        event: ReceiptEvent,
        item: OutboxId | None = None,
        *,
        scope: Scope = DEFAULT_SCOPE,
        target: str = TARGET,
        **fields: Any,
    ) -> Receipt:
        """Of that item, by its reference; or of whatever the fields say."""
        self._number += 1
        given = {"receipt_id": f"r-{self._number}", **fields}
        if item is not None and "reference" not in given:
            given["reference"] = await self.reference(item)
        receipt = Receipt(event=event, **given)
        await self.intake.take_in(scope, target, [receipt])
        return receipt

    async def match(self) -> WindowOutcome:
        return await self.matcher.match_due()

    async def delivery(self, item: OutboxId) -> Delivery:
        found = await self.store.read(deliveries.of_items([item]))
        return found.get(item, Delivery())

    async def counts(self, run_id: RunId) -> dict[DeliveryState, int]:
        return dict(await self.store.read(deliveries.of_run(run_id)))

    async def unmatched(self, scope: Scope = DEFAULT_SCOPE) -> list[StoredReceipt]:
        return await self.store.read(receipts.page(scope, None, 1_000, only_unmatched=True))

    async def suppressed(self) -> dict[str, Suppression]:
        found = await self.store.read(suppressions.page(DEFAULT_SCOPE, suppressions.FIRST, 1_000))
        return {each.address: each for each in found}

"""Workspaces that send through one target: what its provider reports, and who sees what of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, Scope
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import deliveries, keys, receipts, suppressions
from outrider.kernel.transactions.submissions import Intent
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.eventually import eventually
from tests.support.receipt_targets import SECRET
from tests.support.whole_runs import opened, working

TARGET = "sms"
ACME, BETA = WorkspaceName("acme", "shop", "live"), WorkspaceName("beta", "shop", "live")
EVE = WorkspaceName("eve", "shop", "live")
"""Eve has credentials of her own for the target of that name, and shares nothing."""
ANN, BOB = "+447700900001", "+447700900002"
MOST = 100


class Shared:
    """Workspaces that send through one target, and what its provider reports."""

    def __init__(self, outrider: Outrider, scopes: dict[WorkspaceName, Scope]) -> None:
        self.outrider = outrider
        self.scopes = scopes
        self._number = 0

    async def sent(self, workspace: WorkspaceName, intent_id: str, to: str = ANN) -> OutboxId:
        intent = await self.submitted(workspace, intent_id, to)
        assert intent.status == "ACCEPTED"
        return intent.outbox_id

    async def submitted(self, workspace: WorkspaceName, intent_id: str, to: str = ANN) -> Intent:
        """As it ended."""
        scope = self.scopes[workspace]
        payload = {"to": to, "message": "Hi"}
        await self.outrider.submissions.submit(scope, Submission(intent_id, TARGET, payload))

        async def has_ended() -> bool:
            intent, _ = await self.outrider.submissions.intent(scope, intent_id)
            return intent.status != "PENDING"

        await eventually(has_ended)
        return (await self.outrider.submissions.intent(scope, intent_id))[0]

    async def reported(
        self, event: ReceiptEvent, at: WorkspaceName = DEFAULT_WORKSPACE_NAME, **fields: Any
    ) -> None:
        """At that workspace's URL, and looked for once."""
        self._number += 1
        receipt = Receipt(f"r-{self._number}", event, **fields)
        await self.taken(receipt, at)

    async def taken(self, receipt: Receipt, at: WorkspaceName = DEFAULT_WORKSPACE_NAME) -> None:
        await self.outrider.receipt_intake.take(at, TARGET, [receipt])

        async def is_looked_for() -> bool:
            # The worker's matcher may have it.
            await self.outrider.receipt_matcher.match_due()
            due_at = await self.outrider.store.read(receipts.next_due())
            return due_at is None or due_at > self.outrider.clock.now()

        await eventually(is_looked_for)

    async def replied(self, text: str, sender: str = ANN, **fields: Any) -> None:
        await self.reported(ReceiptEvent.REPLIED, sender=sender, text=text, **fields)

    async def state(self, item: OutboxId) -> str:
        found = await self.outrider.store.read(deliveries.of_items([item]))
        return found[item].state.value if item in found else "none"

    async def suppressed(self) -> dict[str, list[str]]:
        """By tenant, the addresses."""
        found = {}
        for name, scope in self.scopes.items():
            page = suppressions.page(scope, suppressions.FIRST, MOST)
            addresses = [each.address for each in await self.outrider.store.read(page)]
            if addresses:
                found[name.tenant] = addresses
        return found

    async def listed(self, *, unmatched: bool = False) -> dict[str, list[str]]:
        """By tenant, the provider's ids of the receipts that it sees."""
        found = {}
        for name, scope in self.scopes.items():
            page = receipts.page(scope, None, MOST, only_unmatched=unmatched)
            ids = [each.receipt_id for each in await self.outrider.store.read(page)]
            if ids:
                found[name.tenant] = sorted(ids)
        return found


@asynccontextmanager
async def sharing(
    database: str,
    folder: Path,
    *,
    work: bool = True,
    answers: Mapping[str, object] | None = None,
) -> AsyncIterator[Shared]:
    (folder / "secret").write_text(SECRET)
    secret = {"receiptsSecret": f"file:{folder}/secret"}
    settings = TargetSettings.model_validate(
        {
            "remembers_references": "for_good",
            "answers": answers or {},
            "credentials": secret,
            "shared_with": ["acme/*", str(BETA)],
            "workspaces": {str(EVE): {"credentials": secret}},
        }
    )
    # It knows no reference again: two workspaces may have chosen the same.
    async with (
        Sandbox(Faults(dedupe=False)) as sandbox,
        opened(
            database, folder, target(TARGET, "sms", sandbox.http_url), targets={TARGET: settings}
        ) as outrider,
    ):
        scopes = {DEFAULT_WORKSPACE_NAME: DEFAULT_SCOPE}
        for name in (ACME, BETA, EVE):
            opening = keys.open_workspace(name, outrider.ids, outrider.clock.now())
            scopes[name] = await outrider.store.write(opening)
        shared = Shared(outrider, scopes)
        if not work:
            yield shared
            return
        async with working(outrider):
            yield shared

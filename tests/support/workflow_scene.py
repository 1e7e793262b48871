"""A lane with workflow items on a fake clock, and a look at their rows: for screens and digests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from outrider.domain.contracts import policy_from
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RecipientId, WorkerId, idempotency_key
from outrider.domain.message_content import MessageContent
from outrider.domain.states import Channel
from outrider.domain.submission import Contract
from outrider.engines.local import local_reference
from outrider.kernel.contracts.contract_cache import snapshots
from outrider.kernel.transactions import notifications, submissions
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.kernel.transactions.notifications import NewNotification
from outrider.kernel.transactions.submissions import DueItem
from outrider.ports.store import Store
from outrider.system import SystemIds
from outrider.testing.claims import claim_any
from outrider.testing.clock import FakeClock
from tests.support.raw_sql import raw_sql

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""A Monday."""
LEASE = timedelta(seconds=30)
CONTRACTS = {
    name: Contract(
        name, gateway_type, "noop:", "realtime", policy_from("max_attempts", None, 5), frozenset()
    )
    for name, gateway_type in (("mail", "smtp"), ("sms", "sms"))
}


class Row(NamedTuple):
    status: str
    reason: str | None
    error: str | None
    waits_for: str | None
    next_attempt_at: datetime | None
    due_at: datetime


class WorkflowScene:
    def __init__(self, store: Store, database: str) -> None:
        self.store = store
        self.database = database
        self.clock = FakeClock(NOON)
        self.ids = SystemIds()

    async def enqueue(
        self,
        address: str = "a@example.test",
        *,
        channel: Channel = Channel.EMAIL,
        zone: str | None = None,
        **other: Any,
    ) -> OutboxId:
        """One item that is due now."""
        outbox_id = OutboxId(self.ids.new())
        letter = MessageContent("Subject", "Body", (), zone)
        item = NewNotification(
            outbox_id, "mail" if channel is Channel.EMAIL else "sms", None, 0, channel, "noop",
            RecipientId("r"), address, "Subject",
            msgspec.json.encode(letter.as_document()).decode(),
            idempotency_key("test", outbox_id), channel.value, f"{channel.value}_send",
            self.clock.now(),
        )._replace(**other)  # fmt: skip
        contracts = snapshots(CONTRACTS, CONTRACTS, lambda _: None)
        await self.store.write(
            notifications.insert(DEFAULT_SCOPE, [item], contracts, self.ids, self.clock.now())
        )
        return outbox_id

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[ClaimedLane]:
        """The only lane, ours for the block and then given back."""
        now = self.clock.now()
        [lane] = await claim_any(
            self.store, Claimer(WorkerId("worker"), now + LEASE, local_reference, self.ids), 10, now
        )
        assert isinstance(lane, ClaimedLane)
        yield lane
        now = self.clock.now()
        assert await self.store.write(submissions.release(lane, now, now))

    async def due(self, lane: ClaimedLane) -> list[DueItem]:
        return await self.store.read(submissions.due(lane, 1_000, self.clock.now()))

    async def row(self, outbox_id: OutboxId) -> Row:
        async with raw_sql(self.database) as raw:
            [found] = await raw.run(
                "SELECT status, reason, error, waits_for, next_attempt_at, due_at"
                f" FROM channel_outbox WHERE id = '{outbox_id}'"
            )
        status, reason, error, waits_for, next_attempt_at, due_at = found
        due = moment(due_at)
        assert due is not None
        return Row(status, reason, error, waits_for, moment(next_attempt_at), due)


def moment(found: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(found) if isinstance(found, str) else found

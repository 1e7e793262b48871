"""An office for workflow tests: Outrider, a provider simulator, rules, events, and a clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock
from outrider.settings import Settings, TargetSettings
from outrider.testing.launches import registry, remembering, target
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, SteppedClock, working

PATIENCE_SECONDS = 60
MAIL, WHATSAPP, SMS = "mail.main", "whatsapp.main", "sms.main"
LEAD = {"id": "lead-1", "email": "Ada@Example.test", "phone": "+447700900123", "firstName": "Ada"}
PARTNER = {"id": "partner-1", "email": "bo@partner.test", "phone": "+447700900456"}
AGENT = {"id": "agent-1", "email": "cy@agency.test", "phone": "+447700900789"}
TO_LEAD = RecipientConfig(include_lead_contact=True)
NOTIFICATION = (
    "id", "kind", "template", "payload", "recipient", "status", "attempts", "run_at", "last_error",
    "waits_for", "step_id",
)  # fmt: skip


class Notification(NamedTuple):
    """A row of the view `notification_outbox`."""

    id: str
    kind: str
    template: str
    payload: dict[str, Any]
    recipient: str | None
    status: str
    attempts: int
    run_at: Any
    last_error: str | None
    waits_for: str | None
    step_id: str | None


def email(order: int = 1, body: str = "Hello {{ lead.firstName }}", **fields: Any) -> WrittenStep:
    given = {"subject": "News", "recipients": TO_LEAD, **fields}
    return WrittenStep(order, Channel.EMAIL, body, **given)


def whatsapp(order: int = 1, body: str = "Hi {{ lead.firstName }}", **fields: Any) -> WrittenStep:
    return WrittenStep(order, Channel.WHATSAPP, body, **{"recipients": TO_LEAD, **fields})


@dataclass
class Office:
    outrider: Outrider
    sandbox: Sandbox
    database: str
    clock: Clock
    emitted: int = field(default=0)

    async def rule(
        self,
        trigger: str,
        channel: Channel,
        *steps: WrittenStep,
        audience: str = "lead",
        enabled: bool = True,
        urgent: bool = False,
    ) -> None:
        written = WrittenRule(trigger, channel, audience, enabled, urgent, steps)
        await self.outrider.rule_keeper.apply(DEFAULT_SCOPE, [written], "test", prune=False)

    async def emit(
        self, trigger: str, *, event_id: str | None = None, **told: Any
    ) -> tuple[StoredEvent, bool]:
        """With a lead, a partner and an agent, unless another subject is told."""
        self.emitted += 1
        subject = told.pop("subject", {"lead": LEAD, "partner": PARTNER, "agent": AGENT})
        emission = Emission(event_id or f"event-{self.emitted}", trigger, subject, told)
        return await self.outrider.event_intake.emit(DEFAULT_SCOPE, emission)

    async def routed(self, trigger: str, **told: Any) -> list[dict[str, Any]]:
        """Emit and route; the decisions."""
        event, _ = await self.emit(trigger, **told)
        await self.outrider.event_router.route_due()
        return (await self.event(event.event_id))[1]

    async def event(self, event_id: str) -> tuple[StoredEvent, list[dict[str, Any]]]:
        stored, _ = await self.outrider.event_intake.event(DEFAULT_SCOPE, event_id)
        return stored, msgspec.json.decode(stored.routes) if stored.routes else []

    async def notifications(self) -> list[Notification]:
        """In the order in which they are due."""
        async with raw_sql(self.database) as raw:
            rows = await raw.run(
                f"SELECT {', '.join(NOTIFICATION)} FROM notification_outbox ORDER BY run_at, id"
            )
        return [
            Notification(str(row[0]), row[1], row[2], msgspec.json.decode(row[3]), *row[4:])
            for row in rows
        ]

    async def notification(self) -> Notification:
        (only,) = await self.notifications()
        return only

    async def until(self, reached: Callable[[list[Notification]], bool]) -> list[Notification]:
        """With a worker at work; time stands still where the office has a stepped clock."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached(rows := await self.notifications()):
                if isinstance(self.clock, SteppedClock):
                    await self.clock.step(0.05)
                await asyncio.sleep(0.01)
        return rows

    async def delivered(self) -> list[Notification]:
        """Work until nothing is pending now or being processed."""
        async with working(self.outrider):
            return await self.until(
                lambda rows: all(row.status in ("succeeded", "failed") for row in rows)
            )


@asynccontextmanager
async def office(
    database: str,
    folder: Path,
    *,
    clock: Clock | None = None,
    limits: Limits = IMPATIENT,
    terms: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Office]:
    """Mail, WhatsApp and SMS targets at a simulator; `terms` change all three contracts."""
    log_path = folder / "provider.ndjson"
    token = folder / "token"
    token.write_text("secret-token")
    async with Sandbox(log_path=log_path) as sandbox:
        allowed = {"maxAttempts": 50} if terms is None else terms
        path = folder / "registry.json"
        path.write_bytes(
            registry(
                target(MAIL, "smtp", sandbox.smtp_url, **allowed),
                target(WHATSAPP, "whatsapp_cloud", sandbox.http_url, **allowed),
                target(SMS, "sms", sandbox.http_url, **allowed),
            )
        )
        cloud = TargetSettings(
            options={"phoneNumberId": "1"}, credentials={"accessToken": f"file:{token}"}
        )
        given = Settings(
            database_url=database,
            registry=path,
            artifacts=folder / "artifacts",
            spool=folder / "spool",
            targets=remembering(SMS, given={WHATSAPP: cloud}),
            **settings,
        )
        async with open_outrider(given, limits=limits, clock=clock) as outrider:
            await outrider.store.migrate()
            yield Office(outrider, sandbox, database, outrider.clock)

"""A person in every table: campaign, report, intents, workflows, events, opt-outs and receipts."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.phases import Action
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.kernel.proof.database_verifier import Verification
from outrider.kernel.transactions.phase_controls import Control
from outrider.testing.launches import message
from tests.support.intents import submit
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import work_until_terminal
from tests.support.workflows import AGENT, SMS, Office, email, office

NAME, MAIL, PHONE = "Adalbertina", "Ada@Example.test", "+447700900123"
TRACES = (MAIL.lower(), PHONE.removeprefix("+"), NAME.lower(), "token-of-ada")
OTHER = recipient(
    "lead-2", email="bo@example.test", phone="+447700900456", attributes='{"firstName": "Bo"}'
)
REPORT = "report"


def ada(**others: str) -> Recipient:
    given = {"email": MAIL, "phone": "+44 7700 900 123", "push_token": "token-of-ada"} | others
    attributes = msgspec.json.encode({"firstName": NAME}).decode()
    return recipient("customer-1", attributes=attributes, **given)


async def campaign(outrider: Outrider, recipients: Iterable[Recipient]) -> CampaignId:
    """Created with a launch and a report."""
    sms = message(Channel.SMS, SMS)
    definition = CampaignDefinition("spring", (LAUNCH, REPORT), (sms,), 100)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, recipients, "test")
    return campaign_id


async def start(outrider: Outrider, campaign_id: CampaignId, phase: str = LAUNCH) -> RunId:
    started = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, phase, Control(Action.START, "test")
    )
    assert started.run_id is not None
    return started.run_id


async def reported(outrider: Outrider, recipients: Iterable[Recipient]) -> tuple[CampaignId, RunId]:
    """A campaign that was sent, has a report, and is sealed."""
    campaign_id = await campaign(outrider, recipients)
    run_id = await start(outrider, campaign_id)
    await work_until_terminal(outrider, run_id)
    await work_until_terminal(outrider, await start(outrider, campaign_id, REPORT))
    await outrider.run_sealer.seal_due()
    return campaign_id, run_id


async def everywhere(desk: Office) -> RunId:
    outrider = desk.outrider
    # Before she can be opted out.
    _, run_id = await reported(outrider, [ada(), OTHER])
    lead = {"id": "customer-1", "email": "ADA@example.test", "phone": PHONE, "firstName": NAME}
    subject = {"lead": lead, "agent": AGENT}
    await desk.rule("quote_sent", Channel.EMAIL, email())
    await desk.rule(
        "quote_sent", Channel.EMAIL, email(body="{{ lead.firstName }} asks"), audience="agent"
    )
    await desk.rule("unwanted", Channel.EMAIL, email(), enabled=False)
    await desk.routed("quote_sent", subject=subject, note=f"for {NAME}")
    await desk.routed("unwanted", subject=subject)
    await submit(outrider, "intent-sent", SMS, to=PHONE, message=f"Dear {NAME}")
    await desk.delivered()
    reply = Receipt("reply-1", ReceiptEvent.REPLIED, sender=PHONE, text=f"{NAME} here")
    await outrider.receipt_intake.take_in(DEFAULT_SCOPE, SMS, [reply])
    await outrider.receipt_matcher.match_due()
    await outrider.suppression_keeper.add(
        DEFAULT_SCOPE, "email", [MAIL], OptOut(f"{NAME} asked for it", topic="offers"), "test"
    )
    # These are not sent or routed any more.
    await submit(outrider, "intent-waiting", SMS, to=PHONE, message=f"Dear {NAME}")
    await desk.emit("quote_sent", subject=subject)
    await outrider.audit_chainer.chain()
    return run_id


@asynccontextmanager
async def erasure_scene(database: str, folder: Path) -> AsyncIterator[Office]:
    async with office(database, folder) as desk:
        yield desk


async def verified(outrider: Outrider) -> Verification:
    await outrider.run_sealer.seal_due()
    await outrider.audit_chainer.chain()
    return await outrider.database_verifier.verify()


async def dumped(database: str) -> str:
    """Every row of every table."""
    async with raw_sql(database) as raw:
        lines = []
        for table in sorted(await raw.tables()):
            lines += [f"{table} {row}" for row in await raw.run(f"SELECT * FROM {table}")]
    return "\n".join(lines)


def left_in_files(database: str, folder: Path) -> list[tuple[str, str]]:
    """Where the artifacts and a database of SQLite still have her, byte for byte."""
    files = [path for path in (folder / "artifacts").rglob("*") if path.is_file()]
    files += [path for path in (folder / "spool").rglob("*") if path.is_file()]
    if database.startswith("sqlite"):
        path = Path(database.removeprefix("sqlite:///"))
        files += list(path.parent.glob(f"{path.name}*"))
    return [
        (file.name, trace)
        for file in files
        for trace in TRACES
        if trace in file.read_bytes().decode(errors="replace").lower()
    ]

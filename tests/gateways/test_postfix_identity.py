"""A real Postfix relays mails of every kind: they arrive as written, and DKIM verifies."""

import asyncio
import time
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesHeaderParser, BytesParser
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from outrider.domain.addresses import normalise_email
from outrider.domain.call_results import Accepted
from outrider.gateways.directory import Gateways
from outrider.gateways.html_text import text_of
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import reserve
from tests.support.dkim_keys import ed25519_key, rsa_key, verified
from tests.support.mail_security import Mailroom, mail_serving
from tests.support.mail_variety import VariedMail, varied_mail
from tests.support.postfix import Postfix, needs_postfix, running_postfix

NAME = "Grüße, aus 'Köln' 🎉"
RECORDS = {
    "s1._domainkey.shop.example": rsa_key().record,
    "e1._domainkey.shop.example": ed25519_key().record,
}
IN_TIME_SECONDS = 500.0
IN_A_WINDOW = 200


@dataclass
class Collector(Mailroom):
    """Keeps every mail as it came, by its reference."""

    raw: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    wanted: int = 0
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        raw = envelope.original_content or b""
        reference = str(BytesHeaderParser().parsebytes(raw)["X-Outrider-Reference"])
        self.raw.setdefault(reference, []).append((envelope.rcpt_tos[0], raw))
        if len(self.raw) == self.wanted:
            self.complete.set()
        return "250 queued"


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def content(part: MIMEPart | None) -> str:
    assert part is not None
    raw = part.get_payload(decode=True)
    assert isinstance(raw, bytes)
    return raw.decode().replace("\r\n", "\n")


def assert_same(mail: VariedMail, recipient: str, raw: bytes) -> None:
    message = BytesParser(policy=policy.default).parsebytes(raw)
    assert isinstance(message, EmailMessage)
    assert not any(part.defects for part in message.walk())
    address = normalise_email(mail.address)
    assert recipient == address
    assert f"\r\nTo: {address}\r\n".encode() in raw
    assert message["Subject"] == mail.subject
    assert message["From"].addresses[0].display_name == NAME
    assert message["Message-ID"] == f"<{mail.reference}@shop.example>"
    kind = "html" if mail.is_html else "plain"
    read, written = content(message.get_body((kind,))), lines(mail.body)
    if not message.is_multipart():
        # A message ends with a line end, whether its text does or not.
        read, written = read.removesuffix("\n"), written.removesuffix("\n")
    assert read == written
    if mail.is_html:
        assert content(message.get_body(("plain",))) == text_of(mail.body)
    files = [
        (part.get_filename(), part.get_payload(decode=True)) for part in message.iter_attachments()
    ]
    assert files == [(each.name, each.content) for each in mail.enclosures]
    assert verified(raw, RECORDS) == [True, True]


@pytest.fixture
def target(tmp_path: Path) -> TargetSettings:
    (tmp_path / "rsa.pem").write_text(rsa_key().pem)
    (tmp_path / "ed25519.pem").write_text(ed25519_key().pem)
    return TargetSettings(
        options={
            "from": f"{NAME} <news@shop.example>", "dkimSelector": "s1", "dkimSelector2": "e1",
            "listUnsubscribe": "https://shop.example/u/{reference}", "listId": "news.shop.example",
        },
        credentials={
            "dkimKey": f"file:{tmp_path}/rsa.pem", "dkimKey2": f"file:{tmp_path}/ed25519.pem",
        },
    )  # fmt: skip


async def relayed(settings: TargetSettings, mails: list[VariedMail]) -> tuple[Collector, Postfix]:
    collector = Collector(wanted=len(mails))
    gateways = Gateways(LocalSecrets(), targets={"mail": settings})
    async with (
        mail_serving(collector, smtputf8=True) as port,
        running_postfix(port, {"smtputf8_enable": "yes"}) as postfix,
    ):
        gateway = gateways.gateway("mail", "smtp", postfix.url)

        async def send(mail: VariedMail) -> None:
            result = await gateway.call(
                reserve(
                    mail.address, reference=mail.reference, subject=mail.subject, body=mail.body,
                    enclosures=mail.enclosures,
                )
            )  # fmt: skip
            assert isinstance(result, Accepted), (mail, result)

        started = time.monotonic()
        for at in range(0, len(mails), IN_A_WINDOW):
            await asyncio.gather(*map(send, mails[at : at + IN_A_WINDOW]))
        print(f"{len(mails)} mails taken over in {time.monotonic() - started:.1f} s")
        try:
            async with asyncio.timeout(IN_TIME_SECONDS):
                await collector.complete.wait()
        except TimeoutError:
            raise AssertionError(postfix.log[-5_000:]) from None
        finally:
            await gateways.close()
        connections = postfix.log.count(": connect from")
    print(f"{connections} connections")
    return collector, postfix


async def all_arrive_as_written(settings: TargetSettings, count: int) -> None:
    mails = [varied_mail(number) for number in range(1, count + 1)]
    collector, _ = await relayed(settings, mails)
    assert sorted(collector.raw) == sorted(mail.reference for mail in mails)
    wrong = []
    for mail in mails:
        [(recipient, raw)] = collector.raw[mail.reference]
        try:
            assert_same(mail, recipient, raw)
        except AssertionError as error:
            wrong.append((mail, raw[:3_000], str(error)[:1_000]))
    assert not wrong, (len(wrong), wrong[0])


@needs_postfix
async def test_mails_of_every_kind_arrive_as_they_were_written_and_signed(
    target: TargetSettings,
) -> None:
    await all_arrive_as_written(target, 100)


@needs_postfix
@pytest.mark.storm
async def test_a_storm_of_5000_mails_arrives_as_it_was_written_and_signed(
    target: TargetSettings,
) -> None:
    await all_arrive_as_written(target, 5_000)

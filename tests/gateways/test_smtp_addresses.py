"""Addresses on the wire (C4): what a real mail server hears of each spelling."""

import pytest

from outrider.domain.call_results import Accepted, CallResult, Rejected
from outrider.gateways.directory import Gateways
from outrider.secrets.store import LocalSecrets
from tests.support.broken_server import reservation
from tests.support.mail_security import Mailroom, mail_serving

ON_THE_WIRE = [
    ("δοκιμή@παράδειγμα.example", "δοκιμή@xn--hxajbheg2az3al.example"),
    ("josé@example.test", "josé@example.test"),
    ("a@straße.example", "a@xn--strae-oqa.example"),
    ('"john smith"@example.test', '"john smith"@example.test'),
    ('"a\\"b@c"@example.test', '"a\\"b@c"@example.test'),
]


async def send(port: int, *addresses: str) -> list[CallResult]:
    gateways = Gateways(LocalSecrets(), targets={})
    try:
        gateway = gateways.gateway("mail", "smtp", f"smtp://127.0.0.1:{port}")
        return [await gateway.call(reservation(each, subject="Grüße")) for each in addresses]
    finally:
        await gateways.close()


@pytest.mark.parametrize(("written", "heard"), ON_THE_WIRE)
async def test_a_mail_server_receives_the_intended_address(written: str, heard: str) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, smtputf8=True) as port:
        [result] = await send(port, written)
    assert isinstance(result, Accepted), result
    [envelope] = mailroom.envelopes
    assert envelope.rcpt_tos == [heard]
    assert f"To: {heard}".encode() in (envelope.original_content or b"")
    assert envelope.smtp_utf8 is not heard.isascii()


async def test_a_server_without_smtputf8_costs_that_item_only() -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        refused, taken = await send(port, "josé@example.test", "ada@example.test")
    assert isinstance(refused, Rejected)
    assert refused.reason == "invalid_recipient"
    assert "SMTPUTF8" in refused.detail
    assert isinstance(taken, Accepted)
    assert [envelope.rcpt_tos for envelope in mailroom.envelopes] == [["ada@example.test"]]
    assert mailroom.connections == 1

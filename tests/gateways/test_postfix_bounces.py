"""A real Postfix takes a message, finds that nobody has that name, and mails a bounce to us."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from outrider.domain.call_results import Accepted
from outrider.domain.receipts import ReceiptEvent
from outrider.gateways.directory import Gateways
from outrider.gateways.mail_listener import MailListener
from outrider.gateways.mail_receiver import MailReceiver
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import reserve
from tests.support.kept_receipts import KeptReceipts
from tests.support.postfix import needs_postfix, running_postfix
from tests.support.receipt_targets import NamedSecrets

SECONDS = 60.0


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    target = TargetSettings(
        options={"returnPath": "bounces@mail.example", "from": "News <news@shop.example>"},
        credentials={"receiptsSecret": "env:MINE"},
    )
    made = Gateways(NamedSecrets(), targets={"mail": target})
    yield made
    await made.close()


@needs_postfix
@pytest.mark.parametrize("lmtp", [False, True], ids=["smtp", "lmtp"])
async def test_postfix_bounces_unknown_users_and_each_bounce_finds_its_item(
    gateways: Gateways, lmtp: bool
) -> None:
    """Postfix accepts mail for any name of its own domain, and only its delivery finds out."""
    inbox = KeptReceipts()
    receiver = MailReceiver(gateways.return_mailboxes(), inbox)
    references = [f"{number:064x}" for number in range(1, 21)]
    async with MailListener(receiver, lmtp=lmtp) as listener:
        place = f"127.0.0.1:{listener.port}"
        transport = f"lmtp:inet:{place}" if lmtp else f"smtp:[127.0.0.1]:{listener.port}"
        parameters = {
            "mydestination": "known.example",
            # Ours are the only addresses that this Postfix delivers elsewhere.
            "transport_maps": f"inline:{{ mail.example={transport} }}",
        }
        async with running_postfix(listener.port, parameters) as postfix:
            gateway = gateways.gateway("mail", "smtp", postfix.url)
            results = await asyncio.gather(
                *(
                    gateway.call(reserve(f"nobody-{number}@known.example", reference=reference))
                    for number, reference in enumerate(references)
                )
            )
            assert all(isinstance(result, Accepted) for result in results), results
            try:
                receipts = await inbox.until(len(references), SECONDS)
            except TimeoutError:
                raise AssertionError(postfix.log) from None
    assert sorted(str(receipt.reference) for receipt in receipts) == references
    assert {(receipt.event, receipt.permanent) for receipt in receipts} == {
        (ReceiptEvent.BOUNCED, True)
    }
    assert all("unknown user" in receipt.reason for receipt in receipts)
    assert {key[:2] for key in inbox.taken} == {("default/default/default", "mail")}


@needs_postfix
async def test_postfix_keeps_a_bounce_while_the_inbox_is_away(gateways: Gateways) -> None:
    inbox = KeptReceipts()
    inbox.is_down = True
    receiver = MailReceiver(gateways.return_mailboxes(), inbox)
    async with MailListener(receiver) as listener:
        parameters = {
            "virtual_mailbox_domains": "known.example",
            "virtual_transport": "error:5.2.2 mailbox full",
            "smtpd_reject_unlisted_recipient": "no",
        }
        async with running_postfix(listener.port, parameters) as postfix:
            gateway = gateways.gateway("mail", "smtp", postfix.url)
            result = await gateway.call(reserve("ada@known.example", reference="b" * 64))
            assert isinstance(result, Accepted), result
            await inbox.until_asked(SECONDS)
            inbox.is_down = False
            (receipt,) = await inbox.until(1, SECONDS)
    # A full mailbox is soft, whatever its first digit is.
    assert (receipt.event, receipt.permanent) == (ReceiptEvent.BOUNCED, False)
    assert receipt.reference == "b" * 64

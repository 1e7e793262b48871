"""A campaign's own sender and Reply-To: checked against what the target may send from, and on the
wire of a mail server and of every mail provider."""

import json
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from outrider.documents.campaign import parse_campaign
from outrider.domain.call_results import Rejected
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey
from outrider.domain.mailbox import MailHead
from outrider.domain.phases import Action
from outrider.gateways.content import Content
from outrider.gateways.directory import Gateways
from outrider.gateways.provider import ProviderGateway, Request
from outrider.kernel.transactions.phase_controls import Control
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE
from outrider.testing.launches import ACTOR, target
from tests.support.mail_security import Mailroom, mail_serving
from tests.support.provider_targets import TARGETS, PlantedSecrets
from tests.support.whole_runs import opened, work_until_terminal

PROVIDERS = ["resend", "ses", "sendgrid", "mailgun", "postmark", "brevo", "mailjet"]
NAME = "mail.main"
OWN = MailHead("Events <hello@events.example.org>", "Team <team@example.net>")
SETTINGS = TargetSettings(
    allowed_senders=["events.example.org"], options={"from": "News <news@example.test>"}
)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_every_mail_provider_gets_the_sender_and_where_answers_go(name: str) -> None:
    settings = TARGETS[name].model_copy(update={"allowed_senders": ["events.example.org"]})
    gateways = Gateways(PlantedSecrets(), targets={name: settings})
    gateway = gateways.gateway(name, name, "https://provider.example")
    assert isinstance(gateway, ProviderGateway)
    content = Content("ada@example.test", "Offer", "Hi", head=OWN)
    request = gateway.compose(IdempotencyKey(REFERENCE), content)
    assert isinstance(request, Request)
    body = unquote_plus(request.body.decode())
    assert "hello@events.example.org" in body
    assert "team@example.net" in body
    assert "Events" in body
    other = content._replace(head=MailHead("someone@elsewhere.example"))
    refused = gateway.compose(IdempotencyKey(REFERENCE), other)
    assert isinstance(refused, Rejected)
    assert "allowed_senders" in refused.detail
    await gateways.close()


def campaign(**fields: object) -> bytes:
    messages: list[dict[str, object]] = [
        {"id": each, "channel": "email", "submissionTarget": NAME, "subject": each, "body": "Hi"}
        for each in ("usual", "own")
    ]
    messages[1] |= {"from": OWN.sender, "replyTo": OWN.reply_to}
    recipients = [
        {"id": each, "email": f"{each}@example.test", "message": each} for each in ("usual", "own")
    ]
    audience = {"recipients": recipients}
    document = {"name": "senders", "audience": audience, "messages": messages, **fields}
    return json.dumps(document).encode()


async def test_a_campaign_is_delivered_from_the_senders_that_it_names(
    database: str, tmp_path: Path
) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        entry = target(NAME, "smtp", f"smtp://127.0.0.1:{port}")
        async with opened(database, tmp_path, entry, targets={NAME: SETTINGS}) as outrider:
            raw = campaign(replyTo="answers@example.test")
            read = parse_campaign(raw, check_template=lambda _: None, source_root=None)
            made = outrider.deployer.create(
                DEFAULT_SCOPE, read.definition, read.recipients(), "test"
            )
            campaign_id, _ = await made
            started = await outrider.phase_controller.control(
                DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
            )
            assert started.run_id is not None
            accounting = await work_until_terminal(outrider, started.run_id)
            assert accounting.sent == 2
            preview = await outrider.previewer.preview(DEFAULT_SCOPE, campaign_id, "own", "own")
            assert (preview["from"], preview["replyTo"]) == OWN

            wrong = campaign(**{"from": "someone@elsewhere.example"})
            read = parse_campaign(wrong, check_template=lambda _: None, source_root=None)
            with pytest.raises(InvalidInput) as refused:
                await outrider.deployer.create(
                    DEFAULT_SCOPE, read.definition, read.recipients(), "test"
                )
    [problem] = refused.value.problems
    assert problem.path == "messages[0].from"
    assert "example.test" in problem.message
    assert "allowed_senders" in problem.message
    found = {
        each["Subject"]: (each["From"], each["Reply-To"], sent.mail_from)
        for each, sent in zip(mailroom.messages, mailroom.envelopes, strict=True)
    }
    assert found == {
        "usual": ("News <news@example.test>", "answers@example.test", "news@example.test"),
        "own": (OWN.sender, OWN.reply_to, "hello@events.example.org"),
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"from": "no mailbox"}, "from"),
        ({"replyTo": "a@b.example\nBcc: c@d.example"}, "replyTo"),
    ],
)
def test_a_sender_that_is_no_mailbox_is_refused(fields: dict[str, str], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_campaign(campaign(**fields), check_template=lambda _: None, source_root=None)
    assert [each.path for each in refused.value.problems] == [path]

"""Audit line A6: `outrider check` speaks each target's protocol, and sends nothing."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.domain.evidence import TargetEvidence
from outrider.domain.submission import Contract, OneShot
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import FAMILIES, Gateways
from outrider.gateways.mail_server import Login
from outrider.gateways.sandbox import Sandbox
from outrider.gateways.smtp_check import without_password
from outrider.gateways.target_checker import check_targets
from outrider.limits.gateways import CHECK_SECONDS
from outrider.ports.gateway import Gateway
from outrider.ports.target_check import (
    CheckableGateway,
    CheckFailure,
    CheckFinding,
    CheckStep,
    CheckWarning,
)
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from outrider.testing.launches import registry, target
from tests.support.broken_server import (
    SHORT_SECONDS,
    Behaviour,
    Reader,
    Writer,
    closed_port,
    hang,
    http,
    reset_at_once,
    serving,
    speak_first,
)
from tests.support.broken_server import MailServer as ScriptedServer
from tests.support.mail_security import (
    USERNAME,
    Certificate,
    Mailroom,
    certificate,
    mail_serving,
)
from tests.support.provider_targets import (
    HTTP2,
    PLANTED,
    SIGNS_IN,
    TARGETS,
    PlantedSecrets,
    url_of,
)

PROVIDERS = [
    name for name, settings in TARGETS.items()
    # Browsers' push services have nothing to ask.
    if settings.credentials and name not in SIGNS_IN | HTTP2 | {"web_push"}
]  # fmt: skip
OWN = ["sms", "push"]
PASSWORD = {"password": "env:MAIL_PASSWORD"}


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def misnamed(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"), "DNS:other.example")


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", Mailroom().password)


async def check(
    gateway_type: str,
    url: str,
    *,
    seconds: float = CHECK_SECONDS,
    settings: TargetSettings | None = None,
    allow_private: bool = True,
) -> CheckFinding | None:
    gateways = Gateways(
        PlantedSecrets(), targets={"t": settings or TARGETS[gateway_type]},
        allow_private=allow_private,
    )  # fmt: skip
    try:
        gateway = gateways.gateway("t", gateway_type, url)
        assert isinstance(gateway, CheckableGateway)
        return await gateway.check(seconds)
    finally:
        await gateways.close()


async def check_mail(url: str, **options: str) -> CheckFinding | None:
    settings = TargetSettings(
        options=options, credentials=PASSWORD if "username" in options else {}
    )
    gateways = Gateways(LocalSecrets(), targets={"mail": settings})
    try:
        gateway = gateways.gateway("mail", "smtp", url)
        assert isinstance(gateway, CheckableGateway)
        return await gateway.check(CHECK_SECONDS)
    finally:
        await gateways.close()


def failed(finding: CheckFinding | None, step: CheckStep, *says: str) -> CheckFailure:
    assert isinstance(finding, CheckFailure), finding
    assert finding.step is step, finding
    assert [words for words in says if words not in f"{finding.message} {finding.hint}"] == []
    assert finding.hint
    return finding


def warned(finding: CheckFinding | None, step: CheckStep, *says: str) -> None:
    assert isinstance(finding, CheckWarning), finding
    assert finding.step is step, finding
    assert [words for words in says if words not in f"{finding.message} {finding.hint}"] == []


@dataclass(slots=True)
class HttpServer:
    """Answers every request with these bytes, and remembers what was asked."""

    answer: bytes
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = 0
            for line in head.splitlines():
                if line.lower().startswith("content-length:"):
                    length = int(line.partition(":")[2])
            self.heads.append(head)
            self.bodies.append(await reader.readexactly(length))
            writer.write(self.answer)
            await writer.drain()


def answer(status: int, document: object = None) -> HttpServer:
    return HttpServer(http(status, json.dumps(document or {}).encode()))


async def check_at(
    gateway_type: str, server: Behaviour, *, seconds: float = CHECK_SECONDS
) -> CheckFinding | None:
    async with serving(server) as port:
        return await check(gateway_type, f"http://127.0.0.1:{port}", seconds=seconds)


# Every family.


@pytest.mark.parametrize("gateway_type", [*TARGETS])
async def test_the_simulator_passes_the_check_of_every_family_and_counts_no_message(
    gateway_type: str, tmp_path: Path
) -> None:
    """A6: the check asks, and sends nothing."""
    log = tmp_path / "log"
    async with Sandbox(log_path=log) as sandbox:
        url = "noop:" if gateway_type == "noop" else url_of(sandbox, gateway_type)
        assert await check(gateway_type, url) is None
        assert sandbox.requests == 0
    assert log.read_bytes() == b""


def test_every_family_has_a_target_to_be_checked_with() -> None:
    """A6: a family that is added is checked here too."""
    assert FAMILIES.keys() == TARGETS.keys()


@pytest.mark.parametrize("gateway_type", [*OWN, "smtp", *PROVIDERS, *HTTP2])
async def test_an_unreachable_server_is_reported_with_its_address(gateway_type: str) -> None:
    """A6: at the step of connecting, whatever the protocol."""
    scheme, port = "smtp" if gateway_type == "smtp" else "http", closed_port()
    finding = await check(gateway_type, f"{scheme}://127.0.0.1:{port}")
    failed(finding, CheckStep.CONNECT, f"nothing can be reached at 127.0.0.1:{port}")
    finding = await check(gateway_type, f"{scheme}://nowhere.invalid")
    failed(finding, CheckStep.CONNECT, "nowhere.invalid", "host name")


@pytest.mark.parametrize("gateway_type", [*OWN, "smtp", *PROVIDERS, *HTTP2])
async def test_a_check_goes_through_the_address_guard(gateway_type: str) -> None:
    """A6: as a delivery would."""
    async with serving(hang) as port:
        scheme = "smtp" if gateway_type == "smtp" else "http"
        url = f"{scheme}://127.0.0.1:{port}"
        finding = await check(gateway_type, url, allow_private=False)
    failed(finding, CheckStep.CONNECT, "not a public address", "allow_private_gateways")


@pytest.mark.parametrize("gateway_type", [*OWN, "smtp", *PROVIDERS])
async def test_a_server_that_never_answers_is_not_waited_for_longer_than_allowed(
    gateway_type: str,
) -> None:
    """A6: bounded time, and the step that was waited for."""
    async with serving(hang) as port:
        scheme = "smtp" if gateway_type == "smtp" else "http"
        async with asyncio.timeout(SHORT_SECONDS * 5):
            finding = await check(
                gateway_type, f"{scheme}://127.0.0.1:{port}", seconds=SHORT_SECONDS
            )
    step = CheckStep.GREETING if gateway_type == "smtp" else CheckStep.REQUEST
    failed(finding, step, "no answer within the time limit")
    if gateway_type == "smtp":
        failed(finding, step, "port 465")


# Mail servers.


@pytest.mark.parametrize("from_start", [False, True])
async def test_a_mail_server_with_a_certificate_of_an_unknown_authority_fails_the_check(
    trusted: Certificate, misnamed: Certificate, from_start: bool
) -> None:
    """A6: the wrong CA, which stood a run still for ten minutes after `check` had said ok."""
    mailroom, scheme = Mailroom(), "smtps" if from_start else "smtp"
    async with mail_serving(mailroom, trusted.context, from_start=from_start) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        failed(await check_mail(url), CheckStep.TLS, "self-signed certificate", "caFile")
        failed(await check_mail(url, caFile=str(misnamed.file)), CheckStep.TLS)
        assert await check_mail(url, caFile=str(trusted.file)) is None
    async with mail_serving(mailroom, misnamed.context, from_start=from_start) as port:
        finding = await check_mail(f"{scheme}://127.0.0.1:{port}", caFile=str(misnamed.file))
        failed(finding, CheckStep.TLS, "127.0.0.1")
    assert not mailroom.messages


async def test_a_mail_server_without_the_tls_that_is_asked_for_fails_the_check() -> None:
    """A6."""
    async with mail_serving(Mailroom()) as port:
        url = f"smtp://127.0.0.1:{port}"
        assert await check_mail(url) is None
        failed(await check_mail(url, starttls="required"), CheckStep.TLS, "does not offer STARTTLS")
        failed(await check_mail(f"smtps://127.0.0.1:{port}"), CheckStep.TLS, "smtps://")


async def test_starttls_that_is_offered_and_then_refused_is_reported_in_the_servers_words() -> None:
    """A6."""
    server = ScriptedServer(ehlo="250-hello\r\n250 STARTTLS", starttls="454 TLS not available")
    async with serving(server) as port:
        finding = await check_mail(f"smtp://127.0.0.1:{port}")
    failed(finding, CheckStep.TLS, "454 TLS not available", "temporary")
    server.starttls = "502 5.5.1 what?"
    async with serving(server) as port:
        finding = await check_mail(f"smtp://127.0.0.1:{port}")
    failed(finding, CheckStep.TLS, "502 5.5.1 what?", "operator")


async def test_a_login_that_is_refused_fails_the_check_without_the_password(
    trusted: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: the server repeats the password, plain and in base64; nobody sees it."""
    monkeypatch.setenv("MAIL_PASSWORD", PLANTED)
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context) as port:
        url, ca_file = f"smtp://127.0.0.1:{port}", str(trusted.file)
        finding = await check_mail(url, username=USERNAME, caFile=ca_file)
        found = failed(finding, CheckStep.CREDENTIAL, "AUTH", "535 5.7.8", "'password'")
        monkeypatch.setenv("MAIL_PASSWORD", mailroom.password)
        assert await check_mail(url, username=USERNAME, caFile=ca_file) is None
    assert PLANTED not in repr(found)
    assert base64.b64encode(PLANTED.encode()).decode().rstrip("=") not in repr(found)
    assert not mailroom.messages


def test_a_password_is_cut_out_however_a_server_repeats_it() -> None:
    """A6: as it is, in another case, alone or with its user in base64."""
    login = Login("courier", "pa$$ wörd")
    whole = base64.b64encode(b"\0courier\0" + login.password.encode()).decode()
    alone = base64.b64encode(login.password.encode()).decode()
    said = without_password(f"no: {login.password} PA$$ WÖRD {whole} {alone}", login)
    assert said.replace("=", "") == "no: " + " ".join(["[redacted]"] * 4)
    assert without_password("no", Login("courier", "")) == "no"


async def test_a_password_is_not_sent_in_the_clear_to_find_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A6."""
    mailroom = Mailroom()
    async with mail_serving(mailroom, auth_needs_tls=False) as port:
        url = f"smtp://127.0.0.1:{port}"
        assert await check_mail(url, username=USERNAME) is None, "loopback is no wire"
        # The one thing that cannot be had in a test is another host.
        monkeypatch.setattr(
            "outrider.gateways.smtp_connection.SmtpConnection._stays_on_this_host", False
        )
        failed(await check_mail(url, username=USERNAME), CheckStep.TLS, "without TLS")
    assert len(mailroom.logins) == 1


async def test_a_mail_server_without_auth_fails_the_check_of_a_target_with_a_login() -> None:
    """A6."""
    async with serving(ScriptedServer()) as port:
        finding = await check_mail(f"smtp://127.0.0.1:{port}", username=USERNAME)
    failed(finding, CheckStep.CREDENTIAL, "no AUTH")


class _OneSender(Mailroom):
    async def handle_MAIL(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _: list[str]
    ) -> str:
        if address != "news@example.test":
            return f"553 5.7.1 {address} is not yours"
        envelope.mail_from = address
        return "250 OK"


async def test_a_sender_that_is_refused_fails_the_check_in_the_servers_words() -> None:
    """A6: found before a launch, and not by its first hundred people."""
    mailroom = _OneSender()
    async with mail_serving(mailroom) as port:
        url = f"smtp://127.0.0.1:{port}"
        finding = await check_mail(url, **{"from": "other@example.test"})
        failed(finding, CheckStep.SENDER, "553 5.7.1 other@example.test is not yours", "'from'")
        assert await check_mail(url, **{"from": "news@example.test"}) is None
    assert not mailroom.messages


@pytest.mark.parametrize(
    ("server", "step", "says"),
    [
        (ScriptedServer(greeting="554 5.7.1 not from there"), CheckStep.GREETING, "554 5.7.1 not"),
        (ScriptedServer(greeting=""), CheckStep.GREETING, "EHLO"),
        (ScriptedServer(ehlo=""), CheckStep.GREETING, "EHLO"),
        (ScriptedServer(mail="451 4.3.0 later"), CheckStep.SENDER, "temporary"),
        (ScriptedServer(mail=""), CheckStep.SENDER, "MAIL FROM"),
        (ScriptedServer(mail="550 \x1b[31mred"), CheckStep.SENDER, "550 [31mred"),
        (reset_at_once, CheckStep.GREETING, "EHLO"),
    ],
)
async def test_a_mail_server_that_refuses_is_reported_with_the_step_and_what_to_do(
    server: Behaviour, step: CheckStep, says: str
) -> None:
    """A6: and no command to the terminal comes through."""
    async with serving(server) as port:
        found = failed(await check_mail(f"smtp://127.0.0.1:{port}"), step, says)
    assert found.message.isprintable()


@pytest.mark.parametrize("server", [ScriptedServer(rset=""), ScriptedServer(quit="500 what?")])
async def test_a_mail_server_that_takes_the_sender_passes_however_it_says_goodbye(
    server: ScriptedServer,
) -> None:
    """A6."""
    async with serving(server) as port:
        assert await check_mail(f"smtp://127.0.0.1:{port}") is None
    assert (server.connections, server.messages) == (1, 0)


async def test_a_mail_server_receives_no_recipient_and_no_message() -> None:
    """A6: RSET and QUIT follow the sender."""
    heard: list[str] = []

    async def listen(reader: Reader, writer: Writer) -> None:
        writer.write(b"220 ready\r\n")
        while line := await reader.readline():
            heard.append(line.split()[0].decode())
            writer.write(b"250 fine\r\n")

    async with serving(listen) as port:
        assert await check_mail(f"smtp://127.0.0.1:{port}") is None
    assert heard == ["EHLO", "MAIL", "RSET", "QUIT"]


async def test_a_greeting_that_refuses_is_no_trouble_with_tls(trusted: Certificate) -> None:
    """A6: the step that is told is the one that failed, with TLS from the start too."""
    server = ScriptedServer(greeting="554 5.7.1 not from there")
    async with serving(server, tls=trusted.context) as port:
        finding = await check_mail(f"smtps://127.0.0.1:{port}", caFile=str(trusted.file))
    failed(finding, CheckStep.GREETING, "554 5.7.1 not from there")


# Providers with credentials.

ASKED = {
    "resend": "GET /domains?limit=1",
    "twilio_sms": "GET /2010-04-01/Accounts/AC123/Messages.json?PageSize=1",
    "twilio_voice": "GET /2010-04-01/Accounts/AC123/Calls.json?PageSize=1",
    "whatsapp_cloud": "GET /v23.0/106540352242922?fields=id",
    "fcm": "POST /v1/projects/shop/messages:send",
    "mastodon": "GET /api/v1/accounts/verify_credentials",
    "ses": "GET /v2/email/account",
    "sendgrid": "GET /v3/scopes",
    "mailgun": "GET /v3/mg.example.test/events?limit=1",
    "postmark": "GET /server",
    "brevo": "GET /v3/account",
    "mailjet": "GET /v3/REST/sender?Limit=1",
    "telnyx": "GET /v2/messaging_profiles?page%5Bsize%5D=1",
    "vonage": "GET /v2/applications?page_size=1",
    "sinch": "GET /xms/v1/plan/batches?page_size=1",
    "infobip": "GET /account/1/balance",
    "plivo": "GET /v1/Account/AC123/Message/?limit=1",
    "expo": "POST /--/api/v2/push/getReceipts",
    "slack": "POST /api/auth.test",
    "telegram": f"GET /bot{PLANTED}/getMe",
}
USERS = {
    "twilio_sms": "AC123",
    "twilio_voice": "AC123",
    "mailgun": "api",
    "mailjet": PLANTED,
    "plivo": "AC123",
    "vonage": PLANTED,
}
OTHER_HEADERS = {"postmark": "X-Postmark-Server-Token", "brevo": "api-key"}
CREDENTIALS = {"ses": "secretAccessKey", "mailjet": "secretKey", "vonage": "apiSecret"}
"""The one that a refusal is about, where there are several."""


@pytest.mark.parametrize("gateway_type", PROVIDERS)
async def test_a_provider_is_asked_one_harmless_thing_with_the_targets_credential(
    gateway_type: str,
) -> None:
    """A6: a read, or FCM's own way to validate without delivering."""
    server = answer(200, {"id": "1"})
    assert await check_at(gateway_type, server) is None
    [head], [body] = server.heads, server.bodies
    assert head.startswith(f"{ASKED[gateway_type]} HTTP/1.1\r\n")
    expected = f"Authorization: Bearer {PLANTED}\r\n"
    if gateway_type in USERS:
        basic = base64.b64encode(f"{USERS[gateway_type]}:{PLANTED}".encode()).decode()
        expected = f"Authorization: Basic {basic}\r\n"
    elif gateway_type == "ses":
        expected = f"Authorization: AWS4-HMAC-SHA256 Credential={PLANTED}/"
    elif gateway_type == "infobip":
        expected = f"Authorization: App {PLANTED}\r\n"
    elif gateway_type == "telegram":
        expected = "Host: "
    elif gateway_type in OTHER_HEADERS:
        expected = f"{OTHER_HEADERS[gateway_type]}: {PLANTED}\r\n"
    assert f"\r\n{expected}" in head
    assert ("content-length" in head.lower()) is (gateway_type in ("fcm", "expo", "slack"))
    if gateway_type == "fcm":
        document = json.loads(body)
        assert document == {"validate_only": True, "message": {"topic": "outrider-check"}}


@pytest.mark.parametrize("gateway_type", PROVIDERS)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_credential_that_is_refused_fails_the_check_and_is_named_but_not_shown(
    gateway_type: str, status: int
) -> None:
    """A6: the wrong key."""
    words = f"{PLANTED} is not a key"
    error = {"message": words} if gateway_type in ("fcm", "whatsapp_cloud") else words
    server = answer(
        status,
        {
            "error": error, "message": words, "errors": [{"message": words, "detail": words}],
            "Message": words, "ErrorMessage": words, "detail": words, "text": words,
            "description": words,
        },
    )  # fmt: skip
    name = CREDENTIALS.get(gateway_type) or next(iter(TARGETS[gateway_type].credentials))
    found = failed(
        await check_at(gateway_type, server), CheckStep.CREDENTIAL,
        f"'{name}' (env:PLANTED)", f"HTTP {status} [redacted] is not a key",
    )  # fmt: skip
    assert PLANTED not in repr(found)


@pytest.mark.parametrize("gateway_type", PROVIDERS)
async def test_a_provider_that_fails_or_is_another_server_fails_the_check(
    gateway_type: str,
) -> None:
    """A6: a page with status 200 is not the provider's API."""
    failed(await check_at(gateway_type, answer(500)), CheckStep.REQUEST, "HTTP 500", "status page")
    failed(await check_at(gateway_type, answer(301)), CheckStep.REQUEST, "HTTP 301", "gatewayUrl")
    failed(await check_at(gateway_type, answer(404)), CheckStep.REQUEST, "HTTP 404", "gatewayUrl")
    page = HttpServer(http(200, b"<html>Welcome</html>"))
    failed(await check_at(gateway_type, page), CheckStep.REQUEST, "not the way this provider does")
    failed(await check_at(gateway_type, speak_first), CheckStep.CONNECT)
    warned(await check_at(gateway_type, answer(429)), CheckStep.REQUEST, "busy")


@pytest.mark.parametrize(
    ("gateway_type", "option"),
    [
        ("twilio_sms", "accountSid"),
        ("twilio_voice", "accountSid"),
        ("whatsapp_cloud", "phoneNumberId"),
        ("fcm", "project"),
    ],
)
async def test_a_not_found_from_a_provider_names_the_option_that_may_be_wrong(
    gateway_type: str, option: str
) -> None:
    """A6."""
    failed(await check_at(gateway_type, answer(404)), CheckStep.REQUEST, f"'{option}'")


async def test_a_resend_key_that_may_only_send_passes_the_check() -> None:
    """A6: the key that one should have in production must not be a false alarm."""
    document = {"statusCode": 401, "name": "restricted_api_key", "message": "only send emails"}
    assert await check_at("resend", answer(401, document)) is None


@pytest.mark.parametrize(
    ("gateway_type", "status", "document"),
    [
        ("twilio_sms", 401, {"code": 70051, "message": "Authorization Failed"}),
        ("twilio_voice", 403, {"code": 70051, "message": "Authorization Failed"}),
        ("mastodon", 403, {"error": "This action is outside the authorized scopes"}),
    ],
)
async def test_a_credential_that_may_send_but_not_read_is_a_warning(
    gateway_type: str, status: int, document: Mapping[str, Any]
) -> None:
    """A6: nobody can know without sending, so nobody claims to."""
    finding = await check_at(gateway_type, answer(status, document))
    warned(finding, CheckStep.CREDENTIAL, "it is not proven")


async def test_an_expired_token_is_known_by_its_code_whatever_the_status() -> None:
    """A6: Meta answers 400 to some tokens."""
    document = {"error": {"code": 190, "message": "Error validating access token"}}
    finding = await check_at("whatsapp_cloud", answer(400, document))
    failed(finding, CheckStep.CREDENTIAL, "'accessToken'", "validating access token")


# Gateways of the family of our own.


@pytest.mark.parametrize("gateway_type", OWN)
@pytest.mark.parametrize("status", [200, 204, 400, 404, 405, 501])
async def test_whatever_a_gateway_answers_to_options_it_is_reachable(
    gateway_type: str, status: int
) -> None:
    """A6: its protocol has no call that is not a message."""
    server = HttpServer(http(status, b""))
    assert await check_at(gateway_type, server) is None
    [head] = server.heads
    assert head.startswith(f"OPTIONS /{gateway_type}/send HTTP/1.1\r\n")
    assert server.bodies == [b""]


@pytest.mark.parametrize("gateway_type", OWN)
async def test_a_gateway_that_refuses_or_fails_is_warned_about(gateway_type: str) -> None:
    """A6."""
    for status in (401, 403):
        finding = await check_at(gateway_type, answer(status))
        warned(finding, CheckStep.CREDENTIAL, f"HTTP {status}")
    for status in (301, 500, 503):
        finding = await check_at(gateway_type, answer(status))
        warned(finding, CheckStep.REQUEST, f"HTTP {status}")


@pytest.mark.parametrize("gateway_type", [*OWN, *PROVIDERS])
async def test_an_https_certificate_of_an_unknown_authority_fails_the_check(
    gateway_type: str, trusted: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: and the authority can be named."""
    server = answer(200, {"id": "1"})
    async with serving(server, tls=trusted.context) as port:
        url = f"https://127.0.0.1:{port}"
        failed(await check(gateway_type, url), CheckStep.TLS, "certificate", "SSL_CERT_FILE")
        assert server.heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted.file))
        assert await check(gateway_type, url) is None


async def test_a_server_that_does_not_speak_tls_fails_the_check() -> None:
    """A6."""
    async with serving(speak_first) as port:
        failed(await check("sms", f"https://127.0.0.1:{port}"), CheckStep.TLS)
    async with serving(hang) as port:
        finding = await check("sms", f"https://127.0.0.1:{port}", seconds=SHORT_SECONDS)
        failed(finding, CheckStep.CONNECT, "no TLS connection", "TLS is spoken there")


# All targets of a registry.


def contract(name: str, gateway_type: str, url: str) -> Contract:
    return Contract(name, gateway_type, url, "realtime", OneShot(), frozenset())


class _Directory:
    """Gateways that are not of a family: the same one for every target."""

    def __init__(self, gateway: object) -> None:
        self._gateway: Any = gateway

    def gateway(self, *_: object) -> Gateway:
        gateway: Gateway = self._gateway
        return gateway

    def own_workspaces(self, submission_target: str) -> list[WorkspaceName]:  # noqa: ARG002
        return []

    def shares_reports(self, submission_target: str, workspace: WorkspaceName) -> bool:  # noqa: ARG002
        return False

    def is_scoped(self, submission_target: str, workspace: WorkspaceName) -> bool:  # noqa: ARG002
        return False

    def evidence(
        self,
        submission_target: str,  # noqa: ARG002
        gateway_type: str,  # noqa: ARG002
        gateway_url: str,  # noqa: ARG002
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,  # noqa: ARG002
    ) -> TargetEvidence:
        return TargetEvidence()

    def recipes(self) -> list[tuple[str, str, str, str]]:
        return []


async def test_targets_are_checked_at_once_but_not_more_than_allowed() -> None:
    """A6: forty are two rounds of twenty, and each round waits until all of it is there."""
    most = now = 0
    all_there = asyncio.Barrier(20)

    class Slow:
        async def check(self, seconds: float) -> CheckFinding | None:  # noqa: ARG002
            nonlocal most, now
            now, most = now + 1, max(most, now + 1)
            await all_there.wait()
            now -= 1
            return None

    contracts = [contract(f"t{number}", "sms", "http://a.test") for number in range(40)]
    found = await check_targets(_Directory(Slow()), contracts, allow_private=True, at_once=20)
    assert most == 20
    assert found == {each.submission_target: [] for each in contracts}


async def test_a_check_that_does_not_end_is_ended() -> None:
    """A6: whatever a family of one's own does."""

    class Endless:
        async def check(self, seconds: float) -> CheckFinding | None:  # noqa: ARG002
            await asyncio.Event().wait()
            return None

    given = [contract("t", "sms", "http://a.test")]
    async with asyncio.timeout(SHORT_SECONDS * 5):
        found = await check_targets(_Directory(Endless()), given, allow_private=True, seconds=0.1)
    [finding] = found["t"]
    failed(finding, CheckStep.REQUEST, "did not end")


async def test_a_family_without_a_check_is_only_connected_to() -> None:
    """A6: the capability is optional."""
    async with serving(hang) as port:
        open_one = contract("open", "mine", f"http://127.0.0.1:{port}")
        closed_one = contract("closed", "mine", f"http://127.0.0.1:{closed_port()}")
        found = await check_targets(
            _Directory(object()), [open_one, closed_one], allow_private=True
        )
    assert found["open"] == []
    [finding] = found["closed"]
    failed(finding, CheckStep.CONNECT)


async def test_a_target_that_cannot_be_made_is_still_looked_for() -> None:
    """A6: every problem at once."""
    gateways = Gateways(LocalSecrets())
    given = [contract("r", "resend", f"http://127.0.0.1:{closed_port()}")]
    first, second = (await check_targets(gateways, given, allow_private=True))["r"]
    await gateways.close()
    failed(first, CheckStep.SETUP, "apiKey")
    failed(second, CheckStep.CONNECT)


# The command.

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANTED", PLANTED)

    async def invoke(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))

    return invoke


TOML = """
[targets.mail.options]
from = "news@example.test"
[targets.resend.credentials]
apiKey = "env:PLANTED"
"""


async def test_the_command_has_a_line_for_each_target_and_every_problem_at_once(
    run: Run, tmp_path: Path, trusted: Certificate
) -> None:
    """A6: a wrong CA, a wrong key and a gateway that is not there, in one look."""
    (tmp_path / "outrider.toml").write_text(TOML)
    async with AsyncExitStack() as servers:
        mail = await servers.enter_async_context(mail_serving(Mailroom(), trusted.context))
        refusing = await servers.enter_async_context(
            serving(answer(403, {"name": "invalid_api_key", "message": f"no: {PLANTED}"}))
        )
        closing = await servers.enter_async_context(serving(answer(401)))
        sandbox = await servers.enter_async_context(Sandbox())
        (tmp_path / "registry.json").write_bytes(
            registry(
                target("mail", "smtp", f"smtp://127.0.0.1:{mail}"),
                target("resend", "resend", f"http://127.0.0.1:{refusing}"),
                target("closing", "sms", f"http://127.0.0.1:{closing}"),
                target("gone", "sms", f"http://127.0.0.1:{closed_port()}"),
                target("texts", "sms", sandbox.http_url),
            )
        )
        await run("migrate")
        result, as_json = await run("check"), await run("check", "--json")
    assert result.exit_code == as_json.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1:] == ["gone     failed at connect", "mail     failed at tls",
                         "resend   failed at credential", "texts    ok"]  # fmt: skip
    assert lines[0].startswith("closing  warning at credential: 127.0.0.1")
    assert "3 problems" in result.stderr
    for words in ("registry: mail", "self-signed", "caFile", "targets: resend", "'apiKey' (env:"):
        assert words in result.stderr
    assert "next: Fix these, then run `outrider check` again." in result.stderr
    assert PLANTED not in result.output + as_json.output
    told = json.loads(as_json.stdout)
    assert told["success"] is False
    assert [each["path"] for each in told["error"]["fields"]] == [
        "registry: mail", "targets: resend", "registry: gone",
    ]  # fmt: skip
    checks = {each["submissionTarget"]: each for each in told["checks"]}
    assert checks["texts"] == {"submissionTarget": "texts", "ok": True, "findings": []}
    assert checks["closing"]["ok"] is True
    [finding] = checks["mail"]["findings"]
    assert (finding["kind"], finding["step"]) == ("failure", "tls")


async def test_the_command_says_ok_for_targets_that_would_take_a_message(
    run: Run, tmp_path: Path
) -> None:
    """A6: its JSON keeps what it had."""
    # Which of the two workflows' e-mails take is said, or `check` hints at every legacy sender.
    (tmp_path / "outrider.toml").write_text(f'workflow_targets = {{email = "mail"}}\n{TOML}')
    async with Sandbox() as sandbox:
        (tmp_path / "registry.json").write_bytes(
            registry(
                target("mail", "smtp", sandbox.smtp_url),
                target("resend", "resend", sandbox.http_url),
            )
        )
        await run("migrate")
        result, as_json = await run("check"), await run("check", "--json")
        assert sandbox.requests == 0
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "mail    ok", "resend  ok", "ok: settings, database and 2 submission targets",
    ]  # fmt: skip
    told = json.loads(as_json.stdout)
    assert (told["targets"], told["success"]) == (["mail", "resend"], True)
    [hint] = told["hints"]
    assert "OUTRIDER_PUBLIC_URL" in hint

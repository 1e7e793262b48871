"""SMTP with TLS and passwords against a real server, and the options of a mail target."""

from pathlib import Path

import pytest

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    Progress,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.gateways.directory import Gateways
from outrider.gateways.mail_server import Login
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from tests.support.broken_server import (
    REFERENCE,
    SHORT_SECONDS,
    hang,
    reservation,
    serving,
)
from tests.support.broken_server import MailServer as ScriptedServer
from tests.support.mail_security import (
    USERNAME,
    Certificate,
    Mailroom,
    certificate,
    mail_serving,
)

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


async def send(
    url: str, *, settings: TargetSettings | None = None, times: int = 1, **options: str
) -> CallResult:
    """The result of the last of so many calls through a target with these options."""
    given = settings or TargetSettings(
        options=options, credentials=PASSWORD if "username" in options else {}
    )
    gateways = Gateways(LocalSecrets(), targets={"mail": given})
    try:
        gateway = gateways.gateway("mail", "smtp", url)
        for _ in range(times):
            result = await gateway.call(reservation("ada@example.test", subject="Offer"))
        return result
    finally:
        await gateways.close()


def not_sent(result: CallResult) -> str:
    assert isinstance(result, AttemptError), result
    assert result.progress is Progress.NOT_SENT
    return result.code


def held(result: CallResult) -> str:
    """What our set-up gets wrong is nobody's attempt."""
    assert isinstance(result, Held), result
    assert result.closes is Closes.THE_DOOR
    return result.reason


async def test_starttls_is_used_where_it_is_offered(trusted: Certificate) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context) as port:
        result = await send(f"smtp://127.0.0.1:{port}", caFile=str(trusted.file), times=2)
    assert isinstance(result, Accepted)
    assert mailroom.encrypted == [True, True]
    assert mailroom.connections == 1


async def test_without_an_offer_of_tls_auto_continues_unencrypted_and_required_does_not() -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        url = f"smtp://127.0.0.1:{port}"
        assert isinstance(await send(url), Accepted)
        assert held(await send(url, starttls="required")) == "tls_required"
    assert mailroom.encrypted == [False]


async def test_starttls_off_stays_in_the_clear(trusted: Certificate) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context) as port:
        assert isinstance(await send(f"smtp://127.0.0.1:{port}", starttls="off"), Accepted)
    assert mailroom.encrypted == [False]


async def test_smtps_is_encrypted_from_the_start(trusted: Certificate) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context, from_start=True) as port:
        url = f"smtps://localhost:{port}"
        assert isinstance(await send(url, caFile=str(trusted.file)), Accepted)
    assert mailroom.messages


@pytest.mark.parametrize("from_start", [False, True])
async def test_an_untrusted_certificate_holds_the_target(
    trusted: Certificate, misnamed: Certificate, from_start: bool
) -> None:
    """A6, second half."""
    scheme, mailroom = "smtps" if from_start else "smtp", Mailroom()
    async with mail_serving(mailroom, trusted.context, from_start=from_start) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        assert held(await send(url)) == "tls_failure"
        assert held(await send(url, caFile=str(misnamed.file))) == "tls_failure"
    async with mail_serving(mailroom, misnamed.context, from_start=from_start) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        assert held(await send(url, caFile=str(misnamed.file))) == "tls_failure"
    assert not mailroom.messages


async def test_a_server_that_does_not_speak_tls_is_not_sent() -> None:
    async with mail_serving(Mailroom()) as port:
        assert not_sent(await send(f"smtps://127.0.0.1:{port}")) == "tls_failure"


async def test_starttls_that_is_offered_and_then_refused_is_not_sent() -> None:
    server = ScriptedServer(ehlo="250-hello\r\n250 STARTTLS")
    async with serving(server) as port:
        server.starttls = "454 TLS not available"
        assert isinstance(await send(f"smtp://127.0.0.1:{port}"), Throttled)
        server.starttls = "501 no parameters allowed"
        assert held(await send(f"smtp://127.0.0.1:{port}")) == "tls_failure"
    assert server.messages == 0


async def test_a_login_goes_over_tls_only(trusted: Certificate) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context) as port:
        url = f"smtp://127.0.0.1:{port}"
        result = await send(url, username=USERNAME, caFile=str(trusted.file), times=2)
    assert isinstance(result, Accepted)
    assert (mailroom.logins, mailroom.encrypted) == ([USERNAME], [True, True])


async def test_a_password_is_not_sent_in_the_clear_to_another_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, auth_needs_tls=False) as port:
        url = f"smtp://127.0.0.1:{port}"
        assert isinstance(await send(url, username=USERNAME), Accepted), "loopback is no wire"
        # The one thing that cannot be had in a test is another host.
        monkeypatch.setattr(
            "outrider.gateways.smtp_connection.SmtpConnection._stays_on_this_host", False
        )
        assert held(await send(url, username=USERNAME)) == "tls_required"
    assert len(mailroom.logins) == 1


async def test_a_wrong_password_is_not_sent_and_not_shown(
    trusted: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "planted-secret")
    mailroom = Mailroom()
    async with mail_serving(mailroom, trusted.context) as port:
        url = f"smtp://127.0.0.1:{port}"
        result = await send(url, username=USERNAME, caFile=str(trusted.file))
    assert held(result) == "unauthorized"
    assert isinstance(result, Held)
    assert result.detail == "535 5.7.8"
    assert "planted-secret" not in repr(Login(USERNAME, "planted-secret"))
    assert not mailroom.messages


async def test_a_server_without_auth_is_not_sent() -> None:
    server = ScriptedServer()
    async with serving(server) as port:
        result = await send(f"smtp://127.0.0.1:{port}", username=USERNAME)
    assert held(result) == "unauthorized"
    assert server.messages == 0


async def test_a_target_has_its_own_letterhead() -> None:
    mailroom = Mailroom()
    settings = TargetSettings(
        options={
            "from": "news@example.test",
            "replyTo": "help@example.test",
            "listUnsubscribe": "https://example.test/u/{reference}?one=click",
        }
    )
    async with mail_serving(mailroom) as port:
        assert isinstance(await send(f"smtp://127.0.0.1:{port}", settings=settings), Accepted)
    [message], [envelope] = mailroom.messages, mailroom.envelopes
    assert envelope.mail_from == message["From"] == "news@example.test"
    assert message["Reply-To"] == "help@example.test"
    assert message["List-Unsubscribe"] == f"<https://example.test/u/{REFERENCE}?one=click>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["Message-ID"] == f"<{REFERENCE}@example.test>"


async def test_a_plain_target_has_no_unsubscribe_headers() -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        await send(f"smtp://127.0.0.1:{port}")
    assert {"Reply-To", "List-Unsubscribe", "List-Unsubscribe-Post"}.isdisjoint(
        mailroom.messages[0].keys()
    )


@pytest.mark.parametrize(
    "options",
    [
        {"from": "no address"},
        {"from": "a@b\r\nBcc: c@d"},
        {"replyTo": "a@b\nX: y"},
        {"listUnsubscribe": "http://example.test/{reference}"},
        {"listUnsubscribe": "https://example.test/{recipient}"},
        {"listUnsubscribe": "https://example.test/>\r\nX: y"},
        {"listUnsubscribe": "mailto:a@b"},
        {"starttls": "sometimes"},
        {"startTls": "required"},
        {"caFile": "/nowhere/ca.pem"},
        {"caFile": __file__},
    ],
)
def test_an_option_that_cannot_be_is_refused_when_the_gateway_is_made(
    options: dict[str, str],
) -> None:
    gateways = Gateways(LocalSecrets(), targets={"mail": TargetSettings(options=options)})
    with pytest.raises(InvalidInput):
        gateways.gateway("mail", "smtp", "smtp://mail.test")


@pytest.mark.parametrize(
    "settings",
    [
        TargetSettings(options={"username": USERNAME}),
        TargetSettings(credentials=PASSWORD),
        TargetSettings(options={"username": USERNAME}, credentials={"password": "env:UNSET_ONE"}),
        TargetSettings(options={"username": USERNAME}, credentials={"password": "file:/nowhere"}),
    ],
)
def test_half_a_login_is_refused_when_the_gateway_is_made(settings: TargetSettings) -> None:
    gateways = Gateways(LocalSecrets(), targets={"mail": settings})
    with pytest.raises(InvalidInput):
        gateways.gateway("mail", "smtp", "smtp://mail.test")


async def test_a_password_may_live_in_a_file(trusted: Certificate, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(Mailroom().password + "\n")
    settings = TargetSettings(
        options={"username": USERNAME, "caFile": str(trusted.file)},
        credentials={"password": f"file:{file}"},
    )
    async with mail_serving(Mailroom(), trusted.context) as port:
        result = await send(f"smtp://127.0.0.1:{port}", settings=settings)
    assert isinstance(result, Accepted)


# Settings that every family honours.


@pytest.mark.parametrize("gateway_type", ["sms", "push", "smtp"])
async def test_a_target_has_its_own_timeout_and_concurrency(gateway_type: str) -> None:
    settings = TargetSettings(
        timeout_seconds=SHORT_SECONDS, concurrency=3, remembers_references="for_good"
    )
    gateways = Gateways(LocalSecrets(), targets={"own": settings})
    scheme, address = ("smtp", "a@b.test") if gateway_type == "smtp" else ("http", "+44770090012")
    async with serving(hang) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        gateway = gateways.gateway("own", gateway_type, url)
        result = await gateway.call(reservation(address))
        other = gateways.gateway("other", gateway_type, url)
    await gateways.close()
    assert isinstance(result, AttemptError)
    assert result.code == "timeout"
    assert gateway.concurrency == 3
    assert gateway.window_items == (3 if gateway_type == "smtp" else 500)
    assert other.concurrency > 3

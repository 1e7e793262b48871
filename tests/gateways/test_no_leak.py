"""A planted credential is looked for everywhere after calls that failed in every way.

The providers here are as unkind as can be: whatever they answer, they repeat the request in it,
with what was told to them in confidence, as it came and decoded.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from outrider.api.target_lines import target_lines
from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.states import Channel
from outrider.gateways.directory import FAMILIES
from outrider.gateways.simulators.web_push import subscription
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.transactions import audit_trail, ledger_items, run_records
from outrider.settings import Settings, TargetSettings
from outrider.telemetry import configure_logging
from outrider.testing.launches import (
    WATCH_SECONDS,
    launch,
    message,
    observe,
    people,
    registry,
    target,
)
from tests.support.broken_server import Reader, Writer, http, read_request, reset, serving
from tests.support.http2_server import Http2Answer, Http2Provider, Http2Request
from tests.support.mail_security import (
    USERNAME,
    Mailroom,
    certificate,
    mail_serving,
)
from tests.support.provider_targets import HTTP2, PLANTED, TARGETS
from tests.support.whole_runs import IMPATIENT, items_of, working

SECONDS = 60.0
TAKING_NO_CREDENTIALS = {"sms", "push", "noop"}
HTTP_FAMILIES = sorted(FAMILIES.keys() - TAKING_NO_CREDENTIALS - {"smtp"})
PUSH_TOKENS = {
    "expo": "ExponentPushToken[{}]",
    "web_push": subscription("/web-push/NUMBER"),
    "apns": "ab12NUMBER",
}
"""Of the forms that these families take; others take any."""


def forms(secret: str) -> list[bytes]:
    """The value itself, and every way in which base64 can hide it in a longer text."""
    encoded = []
    for shift in range(3):
        whole = base64.b64encode(b"x" * shift + secret.encode()).rstrip(b"=")
        # What depends on the neighbours is cut off at both ends.
        encoded.append(whole[4 if shift else 0 : -4])
    return [secret.encode(), *encoded]


@pytest.fixture(params=["env", "file"])
def reference(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The planted value, where an operator would keep it."""
    if request.param == "env":
        monkeypatch.setenv("PLANTED", PLANTED)
        return "env:PLANTED"
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "planted").write_text(PLANTED)
    return f"file:{folder}/planted"


@pytest.fixture
def nothing_leaks(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[list[str]]:
    """Texts to look at besides logs and database; all are looked at when the test is over."""
    caplog.set_level(logging.DEBUG)
    configure_logging("json", logging.DEBUG)
    shown: list[str] = []
    yield shown
    # The simulator of the provider is in this process too; its own log is not ours.
    ours = [record for record in caplog.records if record.name != "mail.log"]
    captured = capfd.readouterr()
    texts = [captured.out, captured.err, *shown, *(record.getMessage() for record in ours)]
    texts += [str(record.exc_info) for record in ours if record.exc_info]
    stored = _stored(tmp_path / "outrider.db")
    assert len(stored) > 100, "the database was not looked at"
    for form in forms(PLANTED):
        for text in [*(text.encode() for text in texts), *stored]:
            assert form not in text, (form, text[:2_000])
        for file in tmp_path.glob("outrider.db*"):
            assert form not in file.read_bytes(), file.name


def _stored(path: Path) -> list[bytes]:
    """Every value of every table and view."""
    database = apsw.Connection(str(path))
    names = database.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")
    return [
        value if isinstance(value, bytes) else str(value).encode()
        for [name] in names.fetchall()
        for row in database.execute(f'SELECT * FROM "{name}"')
        for value in row
    ]


@asynccontextmanager
async def opened(
    folder: Path, gateway_type: str, url: str, settings: TargetSettings
) -> AsyncIterator[Outrider]:
    path = folder / "registry.json"
    path.write_bytes(registry(target("planted", gateway_type, url, maxAttempts=2)))
    made = Settings(
        database_url=f"sqlite:///{folder}/outrider.db", registry=path, targets={"planted": settings}
    )
    async with open_outrider(made, limits=IMPATIENT) as outrider:
        await outrider.store.migrate()
        yield outrider


def planted(gateway_type: str, reference: str, **options: str) -> TargetSettings:
    """The settings of a family with its credentials planted, and with little patience."""
    known = TARGETS[gateway_type]
    names = known.credentials or {"password": ""}
    return TargetSettings(
        options={**known.options, **options},
        credentials=dict.fromkeys(names, reference),
        timeout_seconds=0.5,
        concurrency=4,
        retry_first_seconds=0.05,
        breaker_failures=1_000,
        breaker_seconds=0.1,
    )


async def send_and_tell(
    outrider: Outrider, channel: Channel, count: int, shown: list[str], token: str | None = None
) -> None:
    """Send to so many, until each is settled or in doubt, or all were turned away, and collect all
    that can be shown."""
    recipients = people(count)
    if token is not None:
        numbered = [token.replace("NUMBER", str(n)).replace("{}", str(n)) for n in range(count)]
        pairs = zip(recipients, numbered, strict=True)
        recipients = [each._replace(push_token=own) for each, own in pairs]
    run_id = await launch(outrider, [message(channel, "planted")], recipients)
    async with working(outrider), asyncio.timeout(SECONDS):
        while True:
            _, accounting = await observe(outrider, run_id)
            if not accounting.waiting or await _all_turned_away(outrider, run_id, count):
                break
            await asyncio.sleep(WATCH_SECONDS)
    shown += [repr(outrider), repr(outrider.settings), *(await _told(outrider, run_id))]
    shown += [repr(await target_lines(outrider, DEFAULT_SCOPE))]


async def _all_turned_away(outrider: Outrider, run_id: RunId, count: int) -> bool:
    """Called, which was nobody's attempt, and waiting for the target."""
    items = (await items_of(outrider, run_id)).values()
    return len(items) == count and all(
        item.reason is not None and not item.attempts for item in items
    )


async def _told(outrider: Outrider, run_id: RunId) -> list[str]:
    read = outrider.store.read
    run = await read(run_records.run(DEFAULT_SCOPE, run_id))
    told = await outrider.run_explainer.explain(DEFAULT_SCOPE, run_id)
    for item in (await items_of(outrider, run_id)).values():
        attempts = await read(ledger_items.attempts_of(item.id))
        assert attempts or item.reason, "it was never called"
        told += [repr(item), repr(attempts), *explain_item(item, attempts)]
    audit = audit_trail.audit_of_campaign(DEFAULT_SCOPE, CampaignId(run.campaign_id), "", 1_000)
    return [*told, repr(await read(audit))]


# Providers that speak HTTP.


def _echo(request: bytes) -> bytes:
    """The request as text for JSON, and what its basic authentication says in the clear."""
    text = request.decode("latin-1").replace('"', "'").replace("\\", "/").replace("\r\n", " ")
    return f"{text} {PLANTED}".encode("latin-1", "replace")


def answered(status: int, shape: str, *headers: str) -> Callable[[bytes], bytes]:
    def answer(request: bytes) -> bytes:
        body = shape.replace("ECHO", _echo(request).decode("latin-1")).encode("latin-1")
        return http(status, body, *headers, "Connection: close")

    return answer


SHAPES = [
    '{"message":"ECHO","name":"invalid_api_key","code":20003}',
    '{"error":{"message":"ECHO","status":"UNAUTHENTICATED","code":190}}',
    '{"error":"ECHO"}',
    "<html>ECHO</html>",
]
ANSWERS: list[Callable[[bytes], bytes] | None] = [
    *(answered(status, shape) for status in (200, 400, 401, 403, 422, 500) for shape in SHAPES),
    answered(429, SHAPES[0], "Retry-After: 0"),
    answered(307, "ECHO", "Location: http://127.0.0.1:1/?ECHO"),
    lambda request: b"HTTP/1.1 " + request,
    lambda request: request,
    lambda _request: b"",
    None,
]


class UnkindProvider:
    """Answers each request in another way; None resets the line."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        request = await read_request(reader)
        self.requests.append(request)
        answer = ANSWERS[len(self.requests) % len(ANSWERS)]
        if b"createSession" in request.partition(b"\r\n")[0]:
            # Without a session, nothing else would be tried.
            answer = lambda _request: http(200, b'{"accessJwt":"session"}')  # noqa: E731
        if answer is None:
            reset(writer)
        else:
            writer.write(answer(request))
            await writer.drain()


def unkind_http2() -> Http2Provider:
    """The same answers over HTTP/2."""

    def answer(request: Http2Request) -> Http2Answer | bytes | None:
        chosen = ANSWERS[len(provider.requests) % len(ANSWERS)]
        raw = b"" if chosen is None else chosen(request.as_text)
        head, _, body = raw.partition(b"\r\n\r\n")
        status = head.split()[1:2]
        if chosen is None or not status or not status[0].isdigit():
            return raw or None
        return Http2Answer(int(status[0]), body, (("retry-after", "0"),))

    provider = Http2Provider(answer)
    return provider


def test_every_family_that_takes_credentials_is_looked_at() -> None:
    taking = {name for name, settings in TARGETS.items() if settings.credentials}
    assert taking == set(HTTP_FAMILIES)


@pytest.mark.parametrize("gateway_type", HTTP_FAMILIES)
async def test_no_provider_gets_a_credential_written_down(
    gateway_type: str, reference: str, tmp_path: Path, nothing_leaks: list[str]
) -> None:
    provider = unkind_http2() if gateway_type in HTTP2 else UnkindProvider()
    channel = FAMILIES[gateway_type].type.channel
    async with serving(provider) as port:
        url = f"http://127.0.0.1:{port}"
        async with opened(
            tmp_path, gateway_type, url, planted(gateway_type, reference)
        ) as outrider:
            token = PUSH_TOKENS.get(gateway_type)
            await send_and_tell(outrider, channel, len(ANSWERS), nothing_leaks, token)
    requests = provider.requests
    texts = [each.as_text if isinstance(each, Http2Request) else each for each in requests]
    heard = b"".join(texts)
    signs = {"web_push": b"Authorization: vapid t=", "apns": b"authorization: bearer "}
    if gateway_type in signs:
        # Its key signs and is never sent.
        assert signs[gateway_type] in heard
        assert not any(form in heard for form in forms(PLANTED))
        return
    assert any(form in heard for form in forms(PLANTED)), "the credential was never used"


# SMTP.


@pytest.mark.parametrize("encrypted", [True, False])
async def test_a_wrong_mail_password_is_not_written_down(
    encrypted: bool, reference: str, tmp_path: Path, nothing_leaks: list[str]
) -> None:
    mailroom = Mailroom(password="another one")
    trusted = certificate(tmp_path)
    async with mail_serving(
        mailroom, trusted.context if encrypted else None, auth_needs_tls=encrypted
    ) as port:
        settings = planted("smtp", reference, username=USERNAME, caFile=str(trusted.file))
        url = f"smtp://127.0.0.1:{port}"
        async with opened(tmp_path, "smtp", url, settings) as outrider:
            await send_and_tell(outrider, Channel.EMAIL, 3, nothing_leaks)
    assert mailroom.logins, "the password was never used"
    assert any("unauthorized" in text for text in nothing_leaks)


REPLIES = {
    "drops on AUTH": {"auth": ""},
    "nonsense on AUTH": {"auth": "what is ECHO?"},
    "busy on AUTH": {"auth": "454 4.7.0 later, ECHO"},
    "closes on AUTH": {"auth": "421 not now, ECHO"},
    "refuses the sender": {"mail": "550 no, ECHO"},
    "refuses the recipient": {"rcpt": "550 no, ECHO"},
    "refuses the message": {"body": "554 no, ECHO"},
    "accepts the message": {"body": "250 queued, ECHO"},
    "nonsense after the message": {"body": "what is ECHO?"},
    "hangs up after the message": {"body": ""},
}


class UnkindMailServer:
    """Takes any password, and repeats it in the reply that the test is about."""

    def __init__(self, replies: dict[str, str]) -> None:
        self._replies = {
            "ehlo": "250-hello\r\n250 AUTH PLAIN", "auth": "235 in", "mail": "250 ok",
            "rcpt": "250 ok", "data": "354 go", "body": "250 queued", "rset": "250 ok",
            "quit": "221 bye", **replies,
        }  # fmt: skip
        self.heard = b""

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        writer.write(b"220 ready\r\n")
        while line := await reader.readline():
            self.heard += line
            verb = line.split()[0].decode().lower()
            if not self._say(writer, verb):
                return
            if verb == "data":
                self.heard += await reader.readuntil(b"\r\n.\r\n")
                if not self._say(writer, "body"):
                    return

    def _say(self, writer: Writer, step: str) -> bool:
        reply = self._replies[step].replace("ECHO", PLANTED)
        writer.write(f"{reply}\r\n".encode() if reply else b"")
        return bool(reply)


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
async def test_a_mail_server_that_repeats_the_password_does_not_get_it_written_down(
    replies: dict[str, str], reference: str, tmp_path: Path, nothing_leaks: list[str]
) -> None:
    server = UnkindMailServer(replies)
    async with serving(server) as port:
        settings = planted("smtp", reference, username=USERNAME)
        url = f"smtp://127.0.0.1:{port}"
        async with opened(tmp_path, "smtp", url, settings) as outrider:
            await send_and_tell(outrider, Channel.EMAIL, 2, nothing_leaks)
    assert any(form in server.heard for form in forms(PLANTED)), "the password was never used"


async def test_an_untrusted_mail_server_never_receives_the_password(
    reference: str, tmp_path: Path, nothing_leaks: list[str]
) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom, certificate(tmp_path).context, from_start=True) as port:
        settings = planted("smtp", reference, username=USERNAME)
        url = f"smtps://127.0.0.1:{port}"
        async with opened(tmp_path, "smtp", url, settings) as outrider:
            await send_and_tell(outrider, Channel.EMAIL, 2, nothing_leaks)
    assert not mailroom.logins

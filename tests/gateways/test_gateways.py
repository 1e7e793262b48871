"""Every gateway on real sockets: what it sends, how it reads answers, how far a failed call got."""

import asyncio
import email
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from pathlib import Path

import pytest
from yarl import URL

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.gateways.http import retry_after_seconds
from outrider.gateways.http_client import HttpClient
from outrider.gateways.json_family import push_gateway, sms_gateway
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.gateways.smtp import SmtpGateway, mail_server
from outrider.gateways.smtp_message import Letterhead
from outrider.limits.gateways import MAIL_FROM_DEFAULT
from outrider.ports.gateway import GatewayDirectory
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from tests.support.broken_server import (
    LATE_SECONDS,
    REFERENCE,
    SHORT_SECONDS,
    Behaviour,
    MailServer,
    Reader,
    StallingSandbox,
    Writer,
    answering,
    answering_then_close,
    closed_port,
    hang,
    http,
    read_request,
    read_then_close,
    reservation,
    reset_after,
    reset_at_once,
    serving,
    speak_first,
)
from tests.support.provider_targets import TARGETS, PlantedSecrets

ANSWER_MAX_BYTES = 1_000
NO_BREAK = "\u2028"


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(answer_max_bytes=ANSWER_MAX_BYTES)
    yield client
    await client.close()


@pytest.fixture
async def hasty_client() -> AsyncIterator[HttpClient]:
    client = HttpClient(timeout_seconds=SHORT_SECONDS, connect_seconds=SHORT_SECONDS)
    yield client
    await client.close()


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1"
    subprocess.run(
        [*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def call_sms(client: HttpClient, behave: Behaviour) -> CallResult:
    async with serving(behave) as port:
        return await sms_gateway(f"http://127.0.0.1:{port}", client).call(reservation())


def error_of(result: CallResult) -> tuple[Progress, str]:
    assert isinstance(result, AttemptError), result
    return result.progress, result.code


# How far an HTTP call got.


async def test_a_refused_connection_is_not_sent(client: HttpClient) -> None:
    result = await sms_gateway(f"http://127.0.0.1:{closed_port()}", client).call(reservation())
    assert error_of(result) == (Progress.NOT_SENT, "connect_failed")


async def test_a_name_that_does_not_resolve_is_not_sent(hasty_client: HttpClient) -> None:
    result = await sms_gateway("http://nowhere.invalid", hasty_client).call(reservation())
    progress, code = error_of(result)
    assert progress is Progress.NOT_SENT
    assert code in ("dns_failure", "connect_timeout")


async def test_a_server_that_does_not_speak_tls_is_not_sent(client: HttpClient) -> None:
    async with serving(speak_first) as port:
        result = await sms_gateway(f"https://127.0.0.1:{port}", client).call(reservation())
    assert error_of(result) == (Progress.NOT_SENT, "tls_failure")


async def test_an_untrusted_certificate_holds_the_target(
    client: HttpClient, self_signed: ssl.SSLContext
) -> None:
    requests: list[bytes] = []

    async def listen(reader: Reader, writer: Writer) -> None:
        requests.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=self_signed) as server:
        port = server.sockets[0].getsockname()[1]
        result = await sms_gateway(f"https://127.0.0.1:{port}", client).call(reservation())
    # A6: it is a matter of set-up, so the target is held and says why.
    assert isinstance(result, Held)
    assert result.reason == "tls_failure"
    assert not any(requests)


async def test_waiting_too_long_for_the_pool_is_not_sent() -> None:
    client = HttpClient(timeout_seconds=LATE_SECONDS, connect_seconds=SHORT_SECONDS, connections=1)
    received: list[bytes] = []

    async def swallow(reader: Reader, writer: Writer) -> None:
        received.append(await read_request(reader))
        await hang(reader, writer)

    async with serving(swallow) as port:
        gateway = sms_gateway(f"http://127.0.0.1:{port}", client)
        first, second = await asyncio.gather(
            gateway.call(reservation()), gateway.call(reservation())
        )
    await client.close()
    assert error_of(first) == (Progress.SENT_NO_ANSWER, "timeout")
    assert error_of(second) == (Progress.NOT_SENT, "connect_timeout")
    assert len(received) == 1


async def test_a_reset_at_once_is_never_called_answered(client: HttpClient) -> None:
    progress, _ = error_of(await call_sms(client, reset_at_once))
    assert progress is not Progress.ANSWERED


@pytest.mark.parametrize("bytes_read", [1, 50, 250])
async def test_a_reset_after_some_bytes_left_is_sent_no_answer(
    client: HttpClient, bytes_read: int
) -> None:
    progress, code = error_of(await call_sms(client, reset_after(bytes_read)))
    assert (progress, code) == (Progress.SENT_NO_ANSWER, "connection_lost")


async def test_a_close_after_the_body_left_is_sent_no_answer(client: HttpClient) -> None:
    result = await call_sms(client, read_then_close)
    assert error_of(result) == (Progress.SENT_NO_ANSWER, "connection_lost")


async def test_silence_is_sent_no_answer(hasty_client: HttpClient) -> None:
    assert error_of(await call_sms(hasty_client, hang)) == (Progress.SENT_NO_ANSWER, "timeout")


async def test_an_answer_cut_short_is_sent_no_answer(client: HttpClient) -> None:
    half = http(200, b'{"status":"accepted"}')[:-5]
    result = await call_sms(client, answering_then_close(half))
    assert error_of(result) == (Progress.SENT_NO_ANSWER, "answer_cut_short")


async def test_a_late_answer_is_sent_no_answer_and_never_read_as_the_next_ones(
    hasty_client: HttpClient,
) -> None:
    late = answering(http(200, b'{"status":"accepted"}'), after_seconds=LATE_SECONDS)
    async with serving(late) as port:
        gateway = sms_gateway(f"http://127.0.0.1:{port}", hasty_client)
        for _ in range(2):
            result = await gateway.call(reservation())
            assert error_of(result) == (Progress.SENT_NO_ANSWER, "timeout")


async def test_a_reused_connection_that_dies_after_the_request_left_is_sent_no_answer(
    client: HttpClient,
) -> None:
    async def answer_once(reader: Reader, writer: Writer) -> None:
        await answering_then_close(http(200, b'{"status":"accepted"}'))(reader, writer)
        await read_request(reader)

    async with serving(answer_once) as port:
        gateway = sms_gateway(f"http://127.0.0.1:{port}", client)
        assert await gateway.call(reservation()) == Accepted()
        result = await gateway.call(reservation())
    assert error_of(result) == (Progress.SENT_NO_ANSWER, "connection_lost")


async def test_a_text_that_has_no_utf8_form_is_not_sent(client: HttpClient) -> None:
    gateway = sms_gateway(f"http://127.0.0.1:{closed_port()}", client)
    result = await gateway.call(reservation(body="\ud800"))
    assert error_of(result) == (Progress.NOT_SENT, "unencodable")


async def test_bytes_that_are_not_http_are_an_invalid_answer(client: HttpClient) -> None:
    result = await call_sms(client, answering_then_close(b"\x00garbage\r\n\r\n"))
    assert error_of(result) == (Progress.SENT_NO_ANSWER, "invalid_answer")


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"x" * (ANSWER_MAX_BYTES + 1)),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"400\r\n" + b"x" * 0x400 + b"\r\n0\r\n\r\n",
    ],
    ids=["with-length", "chunked"],
)  # fmt: skip
async def test_an_endless_answer_is_not_read_to_its_end(client: HttpClient, answer: bytes) -> None:
    result = await call_sms(client, answering(answer))
    assert error_of(result) == (Progress.SENT_NO_ANSWER, "answer_too_large")


async def test_a_redirect_is_not_followed(client: HttpClient) -> None:
    elsewhere = http(307, b"", "Location: http://127.0.0.1:1/")
    assert error_of(await call_sms(client, answering(elsewhere))) == (
        Progress.SENT_NO_ANSWER,
        "http_307",
    )


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_proxies_of_the_environment_are_ignored(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    assert await call_sms(client, answering(http(200, b'{"status":"accepted"}'))) == Accepted()


# What an HTTP answer means.


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"status":"accepted","gatewayMessageId":"m1"}', Accepted("m1")),
        (202, b'{"status":"accepted","gatewayMessageId":7}', Accepted("7")),
        (200, b'{"status":"rejected","reason":"provider_failure"}', Rejected("provider_failure")),
        (400, b'{"status":"rejected","reason":"invalid_message"}', Rejected("invalid_message")),
        (409, b'{"status":"rejected","reason":"invalid_request"}', Rejected("invalid_request")),
        (400, b'{"status":"rejected","reason":"bored"}', Rejected("bored")),
    ],
)
async def test_a_valid_answer_is_taken_at_its_word(
    client: HttpClient, status: int, body: bytes, expected: CallResult
) -> None:
    result = await call_sms(client, answering(http(status, body)))
    if isinstance(expected, Rejected):
        # S4: what the gateway said is kept with it.
        expected = replace(expected, detail=f"HTTP {status}: {body.decode()}")
    assert result == expected


@pytest.mark.parametrize(
    ("answer", "progress", "code"),
    [
        (http(200, b"{}"), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(200, b'{"status":"maybe"}'), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(200, b'{"status":null}'), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(200, b'{"status":"rejected"}'), Progress.ANSWERED, "invalid_answer"),
        (http(200, b'{"status":"rejected","reason":"so\\nwhat"}'), Progress.ANSWERED,
         "invalid_answer"),
        (http(200, b'{"status":"accepted","referenceId":"another"}'), Progress.SENT_NO_ANSWER,
         "invalid_answer"),
        (http(200, b"<html>fine</html>"), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(200, b"\xff\xfe"), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(200, b'{"a":' + b"[" * 990), Progress.SENT_NO_ANSWER, "invalid_answer"),
        (http(400, b'{"status":"accepted"}'), Progress.SENT_NO_ANSWER, "http_400"),
        (http(302, b""), Progress.SENT_NO_ANSWER, "http_302"),
        (http(404, b"not here"), Progress.SENT_NO_ANSWER, "http_404"),
        (http(408, b""), Progress.SENT_NO_ANSWER, "http_408"),
        (http(409, b"<html>no</html>"), Progress.SENT_NO_ANSWER, "http_409"),
        (http(500, b'{"status":"rejected","reason":"invalid_message"}'), Progress.SENT_NO_ANSWER,
         "http_500"),
    ],
)  # fmt: skip
async def test_an_answer_that_makes_no_sense_is_an_attempt_error(
    client: HttpClient, answer: bytes, progress: Progress, code: str
) -> None:
    """X1: unless it refuses in the gateway's own protocol, it may have taken the message."""
    assert error_of(await call_sms(client, answering(answer))) == (progress, code)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_gateway_that_refuses_us_holds_the_target(client: HttpClient, status: int) -> None:
    """A5: and nothing of one message is quoted where everybody sees it."""
    result = await call_sms(client, answering(http(status, b"who are you?")))
    assert result == Held("unauthorized", f"HTTP {status}")
    refusal = http(status, b'{"status":"rejected","reason":"invalid_recipient"}')
    assert isinstance(await call_sms(client, answering(refusal)), Rejected)


@pytest.mark.parametrize("status", [502, 504])
async def test_a_proxy_that_lost_the_gateway_means_sent_no_answer(
    client: HttpClient, status: int
) -> None:
    result = await call_sms(client, answering(http(status, b"")))
    assert error_of(result) == (Progress.SENT_NO_ANSWER, f"http_{status}")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttling_gateway_says_when_to_retry(client: HttpClient, status: int) -> None:
    result = await call_sms(client, answering(http(status, b"", "Retry-After: 17")))
    assert result == Throttled(f"HTTP {status}", 17.0, Closes.THE_DOOR)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttling_gateway_need_not_say_for_how_long(
    client: HttpClient, status: int
) -> None:
    assert await call_sms(client, answering(http(status, b""))) == Throttled(f"HTTP {status}")


async def test_a_withheld_request_leaves_no_byte_and_its_connection_is_used_again(
    client: HttpClient,
) -> None:
    connections: list[list[bytes]] = []

    async def behave(reader: Reader, writer: Writer) -> None:
        requests: list[bytes] = []
        connections.append(requests)
        while True:
            requests.append(await read_request(reader))
            writer.write(http(200, b'{"status":"accepted"}'))

    async with serving(behave) as port:
        gateway = sms_gateway(f"http://127.0.0.1:{port}", client)
        for _ in range(2):
            withheld = await gateway.call(reservation(may_begin=lambda: False))
            assert withheld == NotBegun("withheld")
        assert await gateway.call(reservation()) == Accepted()
    [requests] = connections
    assert len(requests) == 1


async def test_a_call_that_cannot_connect_never_starts(client: HttpClient) -> None:
    """A worker's own record of calls it had begun names none that could not have arrived."""
    begun: list[str] = []

    def begin() -> bool:
        begun.append("begun")
        return True

    nobody = closed_port()
    sms = sms_gateway(f"http://127.0.0.1:{nobody}", client)
    smtp = smtp_gateway(f"smtp://127.0.0.1:{nobody}")
    for result in (
        await sms.call(reservation(may_begin=begin)),
        await smtp.call(reservation("ada@example.test", may_begin=begin)),
    ):
        assert error_of(result)[0] is Progress.NOT_SENT
    assert begun == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 3 ", 3.0),
        ("9" * 400, 3600.0),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("²", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_not_at_all(header: str, seconds: float | None) -> None:
    assert retry_after_seconds(header, datetime.now(UTC)) == seconds


def test_retry_after_is_read_as_a_date() -> None:
    now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    header = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert retry_after_seconds(header, now) == 90.0


async def test_the_request_is_what_the_family_speaks(client: HttpClient) -> None:
    requests: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(http(200, b'{"status":"accepted"}', "Connection: close"))

    async with serving(remember) as port:
        url = f"http://127.0.0.1:{port}/base/"
        await sms_gateway(url, client).call(reservation(body="Hé"))
        await push_gateway(url, client).call(reservation("token-1", body="Hi"))
    sms, push = requests
    assert sms.startswith(b"POST /base/sms/send HTTP/1.1\r\n")
    assert f'{{"referenceId":"{REFERENCE}","to":"+447700900123","message":"Hé"}}'.encode() in sms
    assert push.startswith(b"POST /base/push/send HTTP/1.1\r\n")
    assert b'"token":"token-1","title":"","body":"Hi"}' in push
    assert b"application/json" in sms


async def test_a_client_can_be_closed_and_used_again(client: HttpClient) -> None:
    async with serving(answering(http(200, b"{}"))) as port:
        for _ in range(2):
            answer = await client.post_json(URL(f"http://127.0.0.1:{port}/"), {})
            assert not isinstance(answer, AttemptError)
            await client.close()


# SMTP.


def smtp_gateway(
    url: str,
    *,
    sender: str = MAIL_FROM_DEFAULT,
    timeout_seconds: float | None = None,
    **pool: int,
) -> SmtpGateway:
    server = mail_server(url, timeout_seconds=timeout_seconds)
    return SmtpGateway(server, letterhead=Letterhead(sender), **pool)  # type: ignore[arg-type]


async def call_smtp(server: MailServer, address: str = "ada@example.test") -> CallResult:
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}")
        try:
            return await gateway.call(reservation(address, subject="Offer"))
        finally:
            await gateway.close()


def decoded(message: bytes) -> tuple[Message, str]:
    parsed = email.message_from_bytes(message.removesuffix(b".\r\n"))
    # HTML comes after its text.
    *_, shown = parsed.walk()
    payload = shown.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return parsed, payload.decode()


async def test_a_message_carries_its_reference_and_is_accepted() -> None:
    server = MailServer()
    assert await call_smtp(server) == Accepted("queued as 42")
    message, body = decoded(server.last_message)
    assert message["From"] == "outrider@localhost"
    assert message["To"] == "ada@example.test"
    assert message["Subject"] == "Offer"
    assert message["Message-ID"] == f"<{REFERENCE}@localhost>"
    assert message["X-Outrider-Reference"] == REFERENCE
    assert message["Date"] is not None
    assert message.get_content_type() == "text/plain"
    assert body.strip() == "Hello"


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("Grüße 🎉 " * 20, "<p>Schöne Grüße</p>"),
        ("=?utf-8?q?looks_encoded?=", "a line of\r.\rdots\n.\n..two\r\n.\r\nQUIT"),
        ("long " * 100, "<b>" + "x" * 5_000),
    ],
)
async def test_any_text_arrives_as_it_was_written(subject: str, body: str) -> None:
    server = MailServer()
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}", sender="news@example.test")
        result = await gateway.call(reservation("a@example.test", subject=subject, body=body))
        await gateway.close()
    assert isinstance(result, Accepted)
    assert server.messages == 1
    unstuffed = server.last_message.replace(b"\r\n..", b"\r\n.")
    assert max(map(len, unstuffed.split(b"\r\n"))) <= 998
    message, received = decoded(unstuffed)
    header = email.header.make_header(email.header.decode_header(message["Subject"]))
    assert str(header).split() == (subject.split() if "=?" not in subject else [subject])
    assert received.splitlines() == body.splitlines()
    assert message["From"] == "news@example.test"
    kind = "alternative" if body.startswith("<") else "plain"
    assert message.get_content_subtype() == kind


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (MailServer(rcpt="550 no such user"), "invalid_recipient"),
        (MailServer(rcpt="550 5.1.1 no such user"), "invalid_recipient"),
        (MailServer(rcpt="552 5.2.2 mailbox full"), "invalid_recipient"),
        (MailServer(mail="552 5.3.4 too big"), "message_refused"),
        (MailServer(body="552 too big"), "message_refused"),
        (MailServer(body="554 5.6.0 no such thing"), "message_refused"),
    ],
)
async def test_a_reply_about_the_item_is_a_rejection(server: MailServer, expected: str) -> None:
    result = await call_smtp(server)
    assert isinstance(result, Rejected)
    assert result.reason == expected
    assert result.reason in GATEWAY_TYPES["smtp"].rejection_reasons


@pytest.mark.parametrize(
    ("server", "closes"),
    [
        (MailServer(greeting="421 busy"), Closes.THE_DOOR),
        (MailServer(ehlo="421 busy"), Closes.THE_DOOR),
        (MailServer(mail="451 later"), Closes.THE_DOOR),
        (MailServer(mail="450 4.7.1 too many messages"), Closes.THE_DOOR),
        (MailServer(rcpt="450 greylisted"), Closes.THE_ITEM),
        (MailServer(rcpt="451 4.7.1 greylisted"), Closes.THE_ITEM),
        (MailServer(rcpt="452 4.2.2 mailbox full"), Closes.THE_ITEM),
        (MailServer(rcpt="421 4.7.0 closing"), Closes.THE_DOOR),
        (MailServer(rcpt="451 4.3.0 out of order"), Closes.THE_DOOR),
        (MailServer(data="421 closing"), Closes.THE_DOOR),
        (MailServer(body="452 full"), Closes.THE_DOOR),
        (MailServer(body="454 4.7.0 throttling failure"), Closes.THE_DOOR),
    ],
)
async def test_a_temporary_reply_says_when_to_retry_and_what_it_is_about(
    server: MailServer, closes: Closes
) -> None:
    """What is said of one recipient is about that one; the others may go on."""
    result = await call_smtp(server)
    assert isinstance(result, Throttled), result
    assert result.closes is closes
    assert result.detail[:3].isdigit()


async def test_withheld_mail_starts_no_transaction_and_its_connection_is_reused() -> None:
    server = MailServer()
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}")
        withheld = reservation("ada@example.test", may_begin=lambda: False)
        assert await gateway.call(withheld) == NotBegun("withheld")
        assert server.messages == 0
        assert isinstance(await gateway.call(reservation("ada@example.test")), Accepted)
        await gateway.close()
    assert (server.messages, server.connections) == (1, 1)


@pytest.mark.parametrize(
    "server",
    [
        MailServer(greeting=""),
        MailServer(ehlo=""),
        MailServer(mail=""),
        MailServer(mail="what?"),
        MailServer(rcpt=""),
        MailServer(data=""),
        MailServer(data="250 fine but why"),
    ],
)
async def test_a_failure_before_the_body_is_not_sent(server: MailServer) -> None:
    assert error_of(await call_smtp(server))[0] is Progress.NOT_SENT
    assert server.messages == 0


@pytest.mark.parametrize("body", ["", "what?", "354 again"])
async def test_no_clear_reply_to_the_body_is_sent_no_answer(body: str) -> None:
    assert error_of(await call_smtp(MailServer(body=body)))[0] is Progress.SENT_NO_ANSWER


async def test_a_silent_mail_server_is_not_sent() -> None:
    async with serving(hang) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}", timeout_seconds=SHORT_SECONDS)
        result = await gateway.call(reservation("ada@example.test"))
    assert error_of(result) == (Progress.NOT_SENT, "timeout")


async def test_a_refused_mail_server_is_not_sent() -> None:
    gateway = smtp_gateway(f"smtp://127.0.0.1:{closed_port()}")
    result = await gateway.call(reservation("ada@example.test"))
    assert error_of(result) == (Progress.NOT_SENT, "connection_lost")


@pytest.mark.parametrize(
    "address", ["a@example.test>\r\nRCPT TO:<b@example.test", "a@example.test\nX: y", "nobody", ""]
)
async def test_a_bad_address_is_rejected_without_any_traffic(address: str) -> None:
    server = MailServer()
    result = await call_smtp(server, address)
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_recipient"
    assert server.connections == 0


@pytest.mark.parametrize("subject", ["Hi\r\nBcc: b@example.test", "Hi\nX: y", "a\x00b", NO_BREAK])
async def test_a_line_break_in_a_subject_is_rejected_without_any_traffic(subject: str) -> None:
    gateway = smtp_gateway(f"smtp://127.0.0.1:{closed_port()}")
    result = await gateway.call(reservation("ada@example.test", subject=subject))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_header"


async def test_a_connection_is_reused_for_a_limited_number_of_messages() -> None:
    server = MailServer()
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}", connections=1, messages_per_connection=2)
        for _ in range(5):
            assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        await gateway.close()
    assert server.connections == 3


async def test_a_refused_message_does_not_cost_the_connection() -> None:
    server = MailServer(rcpt="550 no such user")
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}")
        await gateway.call(reservation("a@example.test"))
        server.rcpt = "250 fine"
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        await gateway.close()
    assert server.connections == 1


async def test_a_connection_that_made_no_sense_is_not_used_again() -> None:
    server = MailServer(mail="what?")
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}")
        await gateway.call(reservation("a@example.test"))
        server.mail = "250 fine"
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        await gateway.close()
    assert server.connections == 2


async def test_a_dead_idle_connection_is_noticed_before_use() -> None:
    async with Sandbox() as sandbox:
        gateway = smtp_gateway(sandbox.smtp_url)
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        for session in list(sandbox.mail_sessions):
            await session.hang_up()
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        await gateway.close()
        assert sandbox.received()["delivered"] == 2


async def test_a_stale_connection_that_fails_on_mail_is_replaced_once_and_then_not_sent() -> None:
    server = MailServer()
    async with serving(server) as port:
        gateway = smtp_gateway(f"smtp://127.0.0.1:{port}")
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        server.mail = ""
        result = await gateway.call(reservation("a@example.test"))
        assert error_of(result) == (Progress.NOT_SENT, "connection_lost")
        server.mail = "250 fine"
        assert isinstance(await gateway.call(reservation("a@example.test")), Accepted)
        await gateway.close()
    # The stale one, the new one that took its place and was dropped too, and the next message's.
    assert (server.connections, server.messages) == (3, 2)


async def test_a_cancelled_message_leaves_no_half_used_connection_behind() -> None:
    async with StallingSandbox() as sandbox:
        gateway = smtp_gateway(sandbox.smtp_url, connections=1)
        call = asyncio.create_task(gateway.call(reservation("a@example.test")))
        await sandbox.stalled.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        sandbox.released.set()
        result = await gateway.call(reservation("b@example.test", reference="a" * 64))
        assert isinstance(result, Accepted)
        await gateway.close()
        assert sandbox.deliveries == {REFERENCE: 1, "a" * 64: 1}


async def test_a_mail_server_silent_after_the_body_is_sent_no_answer() -> None:
    async with StallingSandbox() as sandbox:
        gateway = smtp_gateway(sandbox.smtp_url, timeout_seconds=SHORT_SECONDS)
        result = await gateway.call(reservation("a@example.test"))
        assert error_of(result) == (Progress.SENT_NO_ANSWER, "timeout")
        assert sandbox.deliveries == {REFERENCE: 1}


async def test_waiting_too_long_for_a_mail_connection_is_not_sent() -> None:
    async with StallingSandbox() as sandbox:
        gateway = smtp_gateway(sandbox.smtp_url, connections=1, timeout_seconds=SHORT_SECONDS)
        first, second = await asyncio.gather(
            gateway.call(reservation("a@example.test")),
            gateway.call(reservation("b@example.test", reference="b" * 64)),
        )
        assert error_of(first) == (Progress.SENT_NO_ANSWER, "timeout")
        assert error_of(second) == (Progress.NOT_SENT, "pool_timeout")
        assert sandbox.deliveries == {REFERENCE: 1}


async def test_no_more_connections_are_open_than_allowed() -> None:
    async with Sandbox(Faults(latency_ms=2)) as sandbox:
        gateway = smtp_gateway(sandbox.smtp_url, connections=3)
        most_open = 0

        async def send(number: int) -> CallResult:
            nonlocal most_open
            result = await gateway.call(reservation("a@example.test", reference=f"{number:064x}"))
            most_open = max(most_open, len(sandbox.mail_sessions))
            return result

        results = await asyncio.gather(*(send(number) for number in range(30)))
        await gateway.close()
        assert all(isinstance(result, Accepted) for result in results)
        assert 1 <= most_open <= 3
        assert sandbox.received()["duplicates"] == 0


# The directory.


async def test_the_directory_makes_one_gateway_for_each_type_and_url() -> None:
    gateways = Gateways(PlantedSecrets(), targets=TARGETS)
    directory: GatewayDirectory = gateways
    sms = directory.gateway("target", "sms", "http://one.test")
    assert directory.gateway("target", "sms", "http://one.test") is sms
    assert directory.gateway("target", "sms", "http://two.test") is not sms
    for name, known in GATEWAY_TYPES.items():
        url = "smtp://mail.test" if name == "smtp" else "http://one.test"
        gateway = directory.gateway(name, name, url)
        assert gateway.type is known
        assert gateway.window_items >= gateway.concurrency >= 1
        assert await gateway.look_up([]) == {}
    await gateways.close()


def test_an_unknown_gateway_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as refused:
        Gateways(LocalSecrets()).gateway("target", "pigeon", "http://one.test")
    assert refused.value.hint == f"known gateway types: {', '.join(sorted(GATEWAY_TYPES))}"


@pytest.mark.parametrize(
    ("gateway_type", "url"),
    [
        ("sms", "ftp://host"), ("sms", "http://"), ("push", "host:80"), ("sms", "http://[bad"),
        ("smtp", "http://host"), ("smtp", "smtp://"), ("smtp", "smtp://host:port"),
    ],
)  # fmt: skip
def test_a_url_a_gateway_cannot_use_is_refused_at_once(gateway_type: str, url: str) -> None:
    with pytest.raises(InvalidInput):
        Gateways(LocalSecrets()).gateway("target", gateway_type, url)


@pytest.mark.parametrize("gateway_type", ["sms", "push"])
def test_an_option_that_a_family_does_not_know_is_refused_at_once(gateway_type: str) -> None:
    targets = {"target": TargetSettings(options={"accountSid": "AC"})}
    with pytest.raises(InvalidInput, match="unknown options: accountSid"):
        Gateways(LocalSecrets(), targets=targets).gateway("target", gateway_type, "http://one.test")


def test_a_sender_with_a_line_break_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput):
        Gateways(LocalSecrets(), mail_from="a\r\nb@c").gateway("target", "smtp", "smtp://host")


async def test_the_noop_gateway_accepts_everything() -> None:
    gateway = Gateways(LocalSecrets()).gateway("target", "noop", "")
    assert await gateway.call(reservation()) == Accepted()
    assert gateway.type.channel is Channel.SMS

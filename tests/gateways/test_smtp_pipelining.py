"""PIPELINING: fewer round trips, and it is still known exactly how far each message got."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
import uvloop

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.gateways.mail_server import Mail, Waits
from outrider.gateways.smtp import mail_server
from outrider.gateways.smtp_connection import SmtpConnection
from tests.support.broken_server import MailServer, Reader, Writer, serving

EHLO = "250-hello\r\n250-SIZE 1000000\r\n250 PIPELINING"
MAIL = Mail("a@example.test", "b@example.test", b"Subject: Hi\r\n\r\n.dots\r\n", "ref")


async def deliver(
    server: Callable[..., object], *, begin: Callable[[], bool] = lambda: True, times: int = 1
) -> tuple[list[CallResult], SmtpConnection]:
    async with serving(server) as port:  # type: ignore[arg-type]
        made = mail_server(f"smtp://127.0.0.1:{port}")
        line = SmtpConnection(replace(made, waits=Waits(mail=0.5, rcpt=0.5, data=0.5, end=0.5)))
        results = [await line.deliver(MAIL, begin) for _ in range(times)]
        await line.close()
    return results, line


class Grouped:
    """Answers nothing before it has read MAIL, RCPT and DATA, and then all at once, or in bits."""

    def __init__(self, replies: str, *, bits: int = 10_000, body: str = "250 queued") -> None:
        self.replies, self.bits, self.body = replies.encode(), bits, f"{body}\r\n".encode()
        self.groups: list[list[bytes]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        writer.write(b"220 ready\r\n")
        while line := await reader.readline():
            if line.startswith(b"MAIL"):
                self.groups.append([line, await reader.readline(), await reader.readline()])
                for at in range(0, len(self.replies), self.bits):
                    writer.write(self.replies[at : at + self.bits])
                    await asyncio.sleep(0)
                if self.replies.endswith(b"354 go on\r\n"):
                    self.bodies.append(await reader.readuntil(b"\r\n.\r\n"))
                    writer.write(self.body)
            else:
                writer.write(EHLO.encode() + b"\r\n" if line.startswith(b"EHLO") else b"250 ok\r\n")


FINE = "250 sender\r\n250-recipient\r\n250 fine\r\n354 go on\r\n"


@pytest.mark.parametrize("bits", [1, 7, 10_000])
async def test_sender_recipient_and_data_are_one_write_however_the_replies_come(bits: int) -> None:
    server = Grouped(FINE, bits=bits)
    results, _ = await deliver(server, times=3)
    assert results == [Accepted("queued")] * 3
    assert server.groups == [
        [b"MAIL FROM:<a@example.test> SIZE=22\r\n", b"RCPT TO:<b@example.test>\r\n", b"DATA\r\n"]
    ] * 3  # fmt: skip
    assert server.bodies == [b"Subject: Hi\r\n\r\n..dots\r\n.\r\n"] * 3


def test_the_same_on_the_loop_that_servers_run_on() -> None:
    async def three() -> list[CallResult]:
        return (await deliver(Grouped(FINE, bits=7), times=3))[0]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(three()) == [Accepted("queued")] * 3


@pytest.mark.parametrize(
    ("replies", "kind", "reason"),
    [
        ("550 no\r\n503 no\r\n503 no\r\n", Held, "sender_refused"),
        ("250 ok\r\n550 5.1.1 nobody\r\n554 no recipients\r\n", Rejected, "invalid_recipient"),
        ("250 ok\r\n450 4.2.1 later\r\n554 no recipients\r\n", Throttled, None),
        ("250 ok\r\n250 ok\r\n451 4.3.0 later\r\n", Throttled, None),
        ("250 ok\r\n250 ok\r\n554 5.6.0 no\r\n", Rejected, "message_refused"),
    ],
)  # fmt: skip
async def test_the_first_refusal_is_the_result_and_the_connection_is_used_again(
    replies: str, kind: type[CallResult], reason: str | None
) -> None:
    server = Grouped(replies)
    results, line = await deliver(server, times=2)
    for result in results:
        assert isinstance(result, kind), result
        assert reason is None or getattr(result, "reason", None) == reason
    assert (len(server.groups), line.messages, server.bodies) == (2, 2, [])


async def test_no_body_leaves_for_a_recipient_that_was_refused() -> None:
    """RFC 2920, 3.1: some servers answer 354 all the same."""
    server = Grouped("250 ok\r\n550 5.1.1 no such user\r\n354 come on\r\n")
    [result], line = await deliver(server)
    assert isinstance(result, Rejected)
    assert not line.alive
    assert server.bodies == []


@pytest.mark.parametrize(
    ("replies", "progress"),
    [
        ("", "timeout"),
        ("250 ok\r\n250 ok\r\n", "timeout"),
        ("250 ok\r\nwhat?\r\n", "invalid_answer"),
        ("250 ok\r\n250 ok\r\n354 go\r\n250 more\r\n", "connection_lost"),
        ("250-" + "x" * 40_000, "invalid_answer"),
    ],
)
async def test_without_a_whole_set_of_replies_nothing_was_sent(replies: str, progress: str) -> None:
    server = Grouped(replies)
    [result], line = await deliver(server)
    assert isinstance(result, AttemptError), result
    assert (result.progress, result.code) == (Progress.NOT_SENT, progress)
    assert not line.alive
    assert server.bodies == []


@pytest.mark.parametrize("field", ["mail", "rcpt", "data"])
async def test_a_connection_that_ends_before_the_body_has_sent_nothing(field: str) -> None:
    server = MailServer(ehlo=EHLO)
    setattr(server, field, "")
    [result], _ = await deliver(server)
    assert isinstance(result, AttemptError)
    assert result.progress is Progress.NOT_SENT
    assert server.messages == 0


async def test_a_connection_that_ends_after_the_body_is_in_doubt() -> None:
    server = MailServer(ehlo=EHLO, body="")
    [result], _ = await deliver(server)
    assert isinstance(result, AttemptError)
    assert result.progress is Progress.SENT_NO_ANSWER


async def test_a_refusal_counts_even_if_the_connection_ends_with_it() -> None:
    server = MailServer(ehlo=EHLO, rcpt="550 5.1.1 no such user", data="")
    [result], line = await deliver(server)
    assert isinstance(result, Rejected)
    assert not line.alive


async def test_a_server_that_closes_is_asked_again_on_a_new_connection() -> None:
    """It had enough of that connection, as some do after a number of messages."""
    server = MailServer(ehlo=EHLO)

    async def behave(reader: Reader, writer: Writer) -> None:
        if server.connections == 1:
            server.mail = "250 fine"
        await server(reader, writer)

    async with serving(behave) as port:
        line = SmtpConnection(mail_server(f"smtp://127.0.0.1:{port}"))
        assert isinstance(await line.deliver(MAIL, lambda: True), Accepted)
        server.mail = "421 4.7.0 enough"
        assert isinstance(await line.deliver(MAIL, lambda: True), Accepted)
        await line.close()
    assert (server.connections, server.messages) == (2, 2)


async def test_a_message_that_is_withdrawn_between_the_group_and_its_body_is_not_sent() -> None:
    answers = iter([True, False])
    server = Grouped(FINE)
    [result], line = await deliver(server, begin=lambda: next(answers))
    assert isinstance(result, NotBegun)
    assert not line.alive
    assert server.bodies == []

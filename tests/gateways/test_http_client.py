"""The HTTP client against servers that do their worst, on real sockets and on both event loops.

What each test asks: how far did the call get, whose answer was it, and what is left of the pool.
"""

import asyncio
import gc
import inspect
import os
import select
import socket
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from yarl import URL

from outrider.domain.call_results import AttemptError, NotBegun, Progress
from outrider.gateways import address_guard, http_client
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from outrider.gateways.http_connection import HttpConnection
from tests.support.broken_server import (
    Behaviour,
    Reader,
    Writer,
    answering,
    answering_then_close,
    closed_port,
    hang,
    http,
    read_request,
    reset,
    reset_after,
    serving,
)

ANSWER_MAX_BYTES = 1_000
LARGE = b"x" * (7 * 1024 * 1024)
PATIENCE_SECONDS = 60.0
"""For what comes at once on any machine: only a defect waits this long."""
FINE = http(200, b"fine")
Outcome = ReceivedAnswer | AttemptError | NotBegun


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test runs on asyncio's own loop and on uvloop, and neither may have a complaint."""

    async def heard(given: dict[str, Any]) -> None:
        complaints: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, complaint: complaints.append(complaint))
        await asyncio.wait_for(test(**given), PATIENCE_SECONDS)
        assert not complaints

    def both(run: Callable[[Coroutine[Any, Any, None]], None], **given: Any) -> None:
        run(heard(given))

    both.__name__, both.__doc__ = test.__name__, test.__doc__
    run = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*inspect.signature(test).parameters.values(), run]
    both.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
    marked: Callable[..., None] = loops(both)
    return marked


@asynccontextmanager
async def calling(**options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(
        **{
            "timeout_seconds": PATIENCE_SECONDS,
            "connect_seconds": PATIENCE_SECONDS,
            "answer_max_bytes": ANSWER_MAX_BYTES,
            **options,
        }
    )
    try:
        yield client
    finally:
        await client.close()


async def ask(client: HttpClient, port: int, content: bytes = b"{}", **options: Any) -> Outcome:
    url = URL(f"http://127.0.0.1:{port}/")
    return await client.post(url, content, "application/json", **options)


async def told(behave: Behaviour) -> Outcome:
    async with serving(behave) as port, calling() as client:
        return await ask(client, port)


def failure(outcome: Outcome) -> tuple[Progress, str]:
    assert isinstance(outcome, AttemptError), outcome
    return outcome.progress, outcome.code


async def all_answered(calls: list[Coroutine[Any, Any, Outcome]]) -> list[bytes]:
    outcomes = await asyncio.gather(*calls)
    assert all(isinstance(outcome, ReceivedAnswer) for outcome in outcomes), outcomes
    return [outcome.body for outcome in outcomes if isinstance(outcome, ReceivedAnswer)]


@dataclass(slots=True)
class Visits:
    """A server that tells its callers' own bytes back, and counts them."""

    connections: int = 0
    closed: int = 0
    out: int = 0
    most_out: int = 0
    answer: str = "HTTP/1.1 200 OK"
    headers: str = ""
    change: asyncio.Event | None = None

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        try:
            while True:
                content = (await read_request(reader)).partition(b"\r\n\r\n")[2]
                self.out += 1
                self.most_out = max(self.out, self.most_out)
                await asyncio.sleep(0)
                self.out -= 1
                head = f"{self.answer}\r\nContent-Length: {len(content)}\r\n{self.headers}\r\n"
                writer.write(head.encode() + content)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()
        finally:
            self.closed += 1
            if self.change is not None:
                self.change.set()

    async def until_closed(self, connections: int) -> None:
        self.change = asyncio.Event()
        while self.closed < connections:
            await self.change.wait()
            self.change.clear()


def hand_of(writer: Writer) -> socket.socket:
    """The server's end of a line, to send or close at this very moment, without any loop."""
    return socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno()))


# What is an answer.

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "length": FINE,
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + FINE,
    "early hints": b"HTTP/1.1 103 Early\r\nLink: <a>\r\nRetry-After: 7\r\n\r\n" * 3 + FINE,
    "chunks": CHUNKED + b"1\r\nf\r\n3\r\nine\r\n0\r\n\r\n",
    "chunk extension": CHUNKED + b"4;a=b\r\nfine\r\n0\r\n\r\n",
    "space after a chunk's size": CHUNKED + b"4 \r\nfine\r\n0\r\n\r\n",
    "trailers": CHUNKED + b"4\r\nfine\r\n0\r\nRetry-After: 7\r\n\r\n",
    "ends with the line": b"HTTP/1.1 200 OK\r\n\r\nfine",
    "old": b"HTTP/1.0 200 OK\r\n\r\nfine",
    "identity": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nfine",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 4\n\nfine",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nfine",
    "odd header": b"HTTP/1.1 200 OK\r\nX: \x01\xff\r\nContent-Length: 4\r\n\r\nfine",
    "upgrade offered": http(200, b"fine", "Upgrade: h2c", "Connection: Upgrade"),
    "zeros ahead": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5_000 + b"4\r\n\r\nfine",
    "longer than said": FINE + b" and more",
    "absurd date": http(200, b"fine", "Retry-After: 1 Jan 99999999999999999999 00:00:00 GMT"),
}


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
@on_both_loops
async def test_a_whole_answer_is_read_as_such(answer: bytes) -> None:
    assert await told(answering_then_close(answer)) == ReceivedAnswer(200, b"fine")


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
@on_both_loops
async def test_an_answer_may_come_byte_by_byte(answer: bytes) -> None:
    async def drip(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        for byte in answer:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    assert await told(drip) == ReceivedAnswer(200, b"fine")


@pytest.mark.parametrize("status", [204, 304, 101])
@pytest.mark.parametrize("headers", ["", "Upgrade: x\r\nConnection: Upgrade\r\n"])
@on_both_loops
async def test_an_answer_without_a_body_is_not_waited_for(status: int, headers: str) -> None:
    answer = f"HTTP/1.1 {status} So\r\n{headers}\r\n".encode()
    async with serving(answering(answer)) as port, calling() as client:
        assert await ask(client, port) == ReceivedAnswer(status, b"")
        assert await ask(client, port) == ReceivedAnswer(status, b"")


# What is none.


@pytest.mark.parametrize(
    "bad",
    [
        "Content-Length: -1",
        "Content-Length: four",
        "Content-Length: 4, 5",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nContent-Length: 4",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        f"Content-Length: {10**30}",
        "Transfer-Encoding: chunked\r\n\r\nnot a size",
        "Transfer-Encoding: chunked\r\n\r\n-4\r\nfine",
        "Transfer-Encoding: chunked\r\n\r\n" + "f" * 20,
        "no header at all",
    ],
)
@on_both_loops
async def test_an_unreadable_answer_is_an_invalid_answer(bad: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\n{bad}\r\n\r\nfine".encode()
    assert failure(await told(answering(answer))) == (Progress.ANSWERED, "invalid_answer")


@pytest.mark.parametrize("bad", [b"SSH-2.0-x\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"\x15\x03\x01\0\2"])
@on_both_loops
async def test_bytes_of_another_protocol_are_an_invalid_answer(bad: bytes) -> None:
    assert failure(await told(answering(bad))) == (Progress.ANSWERED, "invalid_answer")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "connection_lost"),
        (b"HTT", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "connection_lost"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine", "answer_cut_short"),
        (CHUNKED, "answer_cut_short"),
        (CHUNKED + b"9\r\nfine", "answer_cut_short"),
        (CHUNKED + b"4\r\nfine\r\n", "answer_cut_short"),
        (CHUNKED + b"4\r\nfine\r\n0\r\nTrail", "answer_cut_short"),
    ],
)
@pytest.mark.parametrize("hard", [False, True], ids=["closed", "reset"])
@on_both_loops
async def test_half_an_answer_is_none(answer: bytes, code: str, hard: bool) -> None:
    async def behave(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()
        if hard:
            reset(writer)

    progress, told_code = failure(await told(behave))
    assert progress is Progress.SENT_NO_ANSWER
    # A reset may overtake what was sent before it.
    assert told_code == code or (hard and told_code == "connection_lost")


@pytest.mark.parametrize(
    ("start", "more", "code"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: yes\r\n", "invalid_answer"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 100, "invalid_answer"),
        (b"HTTP/1.1 200 OK\r\n", b"y" * 100, "invalid_answer"),
        (b"HTTP/1.1 200 ", b"y" * 100, "invalid_answer"),
        (b"", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", "invalid_answer"),
        (CHUNKED + b"0\r\n", b"X-Trailer: yes\r\n", "invalid_answer"),
        (CHUNKED + b"0\r\nX: ", b"y" * 100, "invalid_answer"),
        (CHUNKED + b"4;x=", b"y" * 100, "invalid_answer"),
        (CHUNKED, b"1\r\nx\r\n", "answer_too_large"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"y" * 100, "answer_too_large"),
    ],
    ids=[
        "headers", "header", "header-name", "reason", "informational", "trailers", "trailer",
        "chunk-extension", "chunks", "no-length",
    ],
)  # fmt: skip
@on_both_loops
async def test_an_endless_body_is_not_read_to_its_end(start: bytes, more: bytes, code: str) -> None:
    async def go_on(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(start)
        while not writer.is_closing():
            writer.write(more * 20)
            await writer.drain()
            await asyncio.sleep(0)

    assert failure(await told(go_on)) == (Progress.ANSWERED, code)


@on_both_loops
async def test_a_length_over_the_limit_is_refused_before_the_body_comes() -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_MAX_BYTES + 1}\r\n\r\n".encode()
    assert failure(await told(answering(answer))) == (Progress.ANSWERED, "answer_too_large")


@on_both_loops
async def test_an_answer_of_just_the_limit_is_read() -> None:
    body = b"x" * ANSWER_MAX_BYTES
    assert await told(answering(http(200, body))) == ReceivedAnswer(200, body)


# Whose answer it is.


@pytest.mark.parametrize("shown", [1, 5, 17, 30, 1000])
@on_both_loops
async def test_no_part_of_a_second_answer_is_read_as_the_next_calls(shown: int) -> None:
    """However much of it came with the first: the rest comes when the next call is out."""
    second = b"HTTP/1.1 299 Wrong\r\nX: HTTP/1.1 299 Wrong\r\nContent-Length: 5\r\n\r\nwrong"

    async def answer_twice(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(FINE + second[:shown])
        await read_request(reader)
        writer.write(second[shown:] + second)
        await reader.read()

    async with serving(answer_twice) as port, calling() as client:
        for _ in range(3):
            assert await ask(client, port) == ReceivedAnswer(200, b"fine")


@pytest.mark.parametrize("more", [b"HTTP/1.1 299 Wrong\r\nContent-Length: 0\r\n\r\n", b"\0", None])
@pytest.mark.parametrize("turns", range(5))
@on_both_loops
async def test_a_line_that_was_spoken_on_or_closed_while_idle_is_not_used(
    more: bytes | None, turns: int
) -> None:
    """Whether the loop has had time to notice or not: the call goes out over another line."""
    ours: list[socket.socket] = []
    theirs: list[socket.socket] = []

    async def connect(host: str, port: int, *, allow_private: bool) -> socket.socket:
        ours.append(await address_guard.connect(host, port, allow_private=allow_private))
        return ours[-1]

    async def behave(reader: Reader, writer: Writer) -> None:
        theirs.append(hand_of(writer))
        await answering(FINE)(reader, writer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "connect", connect)
        async with serving(behave) as port, calling() as client:
            for _ in range(3):
                assert await ask(client, port) == ReceivedAnswer(200, b"fine")
                if more is None:
                    theirs[-1].shutdown(socket.SHUT_WR)
                else:
                    theirs[-1].send(more)
                # It has arrived, and no turn of the loop has passed.
                assert select.select([ours[-1]], [], [], PATIENCE_SECONDS)[0]
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert len(theirs) == 3
    for line in theirs:
        line.close()


@on_both_loops
async def test_a_close_that_races_with_the_request_is_sent_no_answer() -> None:
    requests = 0

    async def behave(reader: Reader, writer: Writer) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1
        writer.write(FINE)
        await reader.readexactly(1)
        reset(writer)

    async with serving(behave) as port, calling() as client:
        assert await ask(client, port) == ReceivedAnswer(200, b"fine")
        outcome = await ask(client, port)
    assert failure(outcome) == (Progress.SENT_NO_ANSWER, "connection_lost")
    assert requests == 1


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("greeting", [b"", b"220 ready\r\n", FINE])
@on_both_loops
async def test_a_server_that_speaks_or_closes_before_it_is_asked_has_not_answered(
    tls: bool, greeting: bytes, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def speak(_reader: Reader, writer: Writer) -> None:
        writer.write(greeting)

    scheme = "https" if tls else "http"
    async with (
        serving(speak, tls=server_tls if tls else None) as port,
        calling(tls=client_tls) as client,
    ):
        for _ in range(10):
            outcome = await client.post(URL(f"{scheme}://127.0.0.1:{port}"), b"", "a/b")
            if isinstance(outcome, AttemptError):
                # Which of them depends on who was first, and each is true where it is said.
                assert outcome.code in ("connect_failed", "connection_lost", "invalid_answer")
                assert (outcome.code == "connect_failed") == (outcome.progress is Progress.NOT_SENT)
            else:
                assert greeting == FINE


# Which lines are used again.


@pytest.mark.parametrize(
    ("answer", "headers", "connections"),
    [
        ("HTTP/1.1 200 OK", "", 1),
        ("HTTP/1.1 200 OK", "Connection: keep-alive\r\n", 1),
        ("HTTP/1.1 200 OK", "Connection: close\r\n", 3),
        ("HTTP/1.1 200 OK", "Connection: Close, x\r\n", 3),
        ("HTTP/1.0 200 OK", "", 3),
        ("HTTP/1.0 200 OK", "Connection: keep-alive\r\n", 1),
    ],
)
@on_both_loops
async def test_a_line_is_used_again_where_the_server_lets_it(
    answer: str, headers: str, connections: int
) -> None:
    visits = Visits(answer=answer, headers=headers)
    async with serving(visits) as port, calling() as client:
        for number in range(3):
            content = str(number).encode()
            assert await ask(client, port, content) == ReceivedAnswer(200, content)
        assert visits.connections == connections
        if connections > 1:
            await visits.until_closed(connections)


@on_both_loops
async def test_a_line_that_was_idle_for_long_is_not_used() -> None:
    visits = Visits()
    async with serving(visits) as port, calling() as client:
        await ask(client, port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http_client, "HTTP_IDLE_SECONDS", 0.0)
            assert await ask(client, port) == ReceivedAnswer(200, b"{}")
        assert visits.connections == 2
        await visits.until_closed(1)


@on_both_loops
async def test_more_calls_than_connections_wait_for_each_other() -> None:
    visits = Visits()
    contents = [str(number).encode() for number in range(50)]
    async with serving(visits) as port, calling(connections=3) as client:
        answers = await all_answered([ask(client, port, content) for content in contents])
    assert answers == contents
    assert visits.most_out <= 3
    assert visits.connections <= 3


@on_both_loops
async def test_of_many_origins_the_longest_idle_connection_is_closed() -> None:
    first, second, third = Visits(), Visits(), Visits()
    async with (
        serving(first) as one,
        serving(second) as two,
        serving(third) as three,
        calling(connections=2) as client,
    ):
        for port in (one, two, one, three):
            assert await ask(client, port) == ReceivedAnswer(200, b"{}")
        await second.until_closed(1)
        for port in (one, three, one, three):
            assert await ask(client, port) == ReceivedAnswer(200, b"{}")
        assert (first.connections, second.connections, third.connections) == (1, 1, 1)
        assert await ask(client, two) == ReceivedAnswer(200, b"{}")
        assert second.connections == 2


@on_both_loops
async def test_origins_that_went_away_leave_room_for_others() -> None:
    async with calling(connections=2) as client:
        for _ in range(5):
            async with serving(Visits()) as port:
                assert await ask(client, port) == ReceivedAnswer(200, b"{}")
        visits = Visits()
        async with serving(visits) as port:
            for _ in range(5):
                await ask(client, port)
        assert visits.connections == 1


@on_both_loops
async def test_a_closed_client_keeps_no_line_of_the_calls_that_were_out() -> None:
    arrived, released, visits = asyncio.Event(), asyncio.Event(), Visits()

    async def behave(reader: Reader, writer: Writer) -> None:
        arrived.set()
        await released.wait()
        await visits(reader, writer)

    async with serving(behave) as port, calling() as client:
        call = asyncio.create_task(ask(client, port))
        await arrived.wait()
        await client.close()
        released.set()
        assert await call == ReceivedAnswer(200, b"{}")
        await visits.until_closed(1)
        assert await ask(client, port) == ReceivedAnswer(200, b"{}"), "it can be used again"
        await client.close()
        await visits.until_closed(2)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("warm", [False, True])
@on_both_loops
async def test_a_call_cancelled_at_any_time_leaks_no_slot_and_no_answer(
    scheme: str, warm: bool, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    visits = Visits()
    async with serving(visits, tls=server_tls if scheme == "https" else None) as port:
        url = URL(f"{scheme}://127.0.0.1:{port}")
        async with calling(connections=1, tls=client_tls) as client:
            for turns in range(25):
                if not warm:
                    await client.close()
                call = asyncio.create_task(client.post(url, b"cancelled", "a/b"))
                waiting = asyncio.create_task(client.post(url, b"cancelled too", "a/b"))
                for _ in range(turns):
                    await asyncio.sleep(0.001 if turns % 5 == 4 else 0)
                call.cancel()
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await call
                with suppress(asyncio.CancelledError):
                    await waiting
                assert await client.post(url, b"mine", "a/b") == ReceivedAnswer(200, b"mine")


@on_both_loops
async def test_a_time_limit_holds_for_the_whole_call_and_its_line_is_not_used_again() -> None:
    visits, connections = Visits(), 0

    async def behave(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        if connections > 1:
            await visits(reader, writer)
            return
        await read_request(reader)
        writer.write(FINE)
        await read_request(reader)
        # uvloop raises for a write to a connection that the client has closed.
        while not writer.is_closing():
            writer.write(b"HTTP/1.1 103 Early\r\n\r\n")
            await asyncio.sleep(0.01)

    async with serving(behave) as port, calling() as client:
        assert await ask(client, port) == ReceivedAnswer(200, b"fine")
        # Over a line that is open already, so that only the answer can be late.
        outcome = await ask(client, port, timeout_seconds=0.1)
        assert failure(outcome) == (Progress.SENT_NO_ANSWER, "timeout")
        assert await ask(client, port, b"next") == ReceivedAnswer(200, b"next")


# What goes out.


async def heard(url: Callable[[int], str], **headers: str) -> bytes:
    requests: list[bytes] = []

    async def listen(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(FINE)

    async with serving(listen) as port, calling() as client:
        outcome = await client.post(URL(url(port)), b"{}", "a/b", headers=headers)
    assert outcome == ReceivedAnswer(200, b"fine")
    return requests[0]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", b"/"),
        ("/a?b=c&d#e", b"/a?b=c&d="),
        ("/ä b?ü", b"/%C3%A4%20b?%C3%BC="),
        ("/a\r\nX: y", b"/aX:%20y"),
        ("/a%0D%0AX:%20y", b"/a%0D%0AX:%20y"),
    ],
)
@on_both_loops
async def test_a_path_is_sent_as_one_word(path: str, sent: bytes) -> None:
    request = await heard(lambda port: f"http://127.0.0.1:{port}{path}")
    assert request.split(b" HTTP/1.1\r\n")[0].removesuffix(b"=") == b"POST " + sent.removesuffix(
        b"="
    )


@on_both_loops
async def test_credentials_of_a_url_are_sent_as_a_header_and_nowhere_else() -> None:
    request = await heard(lambda port: f"http://us%0Aer:p%40ss%3A@localhost:{port}/")
    who = b64encode(b"us\ner:p@ss:")
    assert b"\r\nAuthorization: Basic " + who + b"\r\n" in request
    assert b"\r\nHost: localhost:" in request
    assert request.count(b"\r\n") == 9


@on_both_loops
async def test_a_name_is_asked_for_as_resolvers_spell_it() -> None:
    assert b"Host: localhost:" in await heard(lambda port: f"http://ＬＯＣＡＬＨＯＳＴ:{port}/")


async def test_a_name_with_two_addresses_is_reached_at_the_one_that_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def two(_host: str, port: int, **_hints: Any) -> list[address_guard.AddressInfo]:
        deaf = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", closed_port()))
        return [deaf, (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
    async with serving(Visits()) as port, calling() as client:
        url = URL(f"http://two.example:{port}")
        assert await client.post(url, b"here", "a/b") == ReceivedAnswer(200, b"here")


async def test_an_address_that_does_not_answer_is_left_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as silent, ExitStack() as queue:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        # Nobody accepts: once the queue is full, whoever comes hears nothing at all.
        for _ in range(4):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())

        async def two(_host: str, port: int, **_hints: Any) -> list[address_guard.AddressInfo]:
            deaf = (socket.AF_INET, socket.SOCK_STREAM, 0, "", silent.getsockname())
            return [deaf, (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        monkeypatch.setattr(address_guard, "ADDRESS_SECONDS", 0.1)
        async with serving(Visits()) as port, calling() as client:
            url = URL(f"http://two.example:{port}")
            assert await client.post(url, b"here", "a/b") == ReceivedAnswer(200, b"here")


@on_both_loops
async def test_an_address_of_the_sixth_version_is_reached() -> None:
    visits = Visits()
    try:
        server = await asyncio.start_server(visits, "::1", 0)
    except OSError:
        pytest.skip("this machine has no ::1")
    async with server, calling() as client:
        port = server.sockets[0].getsockname()[1]
        assert await client.post(URL(f"http://[::1]:{port}"), b"6", "a/b") == ReceivedAnswer(
            200, b"6"
        )
        await client.close()
        await visits.until_closed(1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nY: b"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X", "a\x85b"),
        ("X", "a\u2028b"),
        ("X", "\N{SNOWMAN}"),
        ("X", "\ud800"),
        ("X\r\nY", "b"),
        ("X: a\r\nY", "b"),
        (" X", "b"),
        ("X Y", "b"),
        ("X\N{SNOWMAN}", "b"),
        ("", "b"),
    ],
)
@on_both_loops
async def test_a_header_that_is_not_one_line_is_not_sent(name: str, value: str) -> None:
    visits = Visits()
    async with serving(visits) as port, calling() as client:
        outcome = await ask(client, port, headers={name: value})
    assert failure(outcome) == (Progress.NOT_SENT, "invalid_header")
    assert visits.connections == 0


@on_both_loops
async def test_a_content_type_that_is_not_one_line_is_not_sent() -> None:
    async with calling() as client:
        outcome = await client.post(URL("http://127.0.0.1:9"), b"", "a/b\r\nX: y")
    assert failure(outcome) == (Progress.NOT_SENT, "invalid_header")


@pytest.mark.parametrize(
    "url",
    [
        URL("http://a..b/"),
        URL(f"http://{'a' * 64}.example/"),
        URL("http://a b/"),
        URL("/no-host"),
        URL("ftp://127.0.0.1/"),
        URL("https://.127.0.0.1/"),
        URL.build(scheme="http", host="127.0.0.1", path="/a\r\nX: y", encoded=True),
        URL.build(scheme="http", host="127.0.0.1", path="/a b", encoded=True),
        URL.build(scheme="http", host="127.0.0.1", path="/ä", encoded=True),
        URL.build(scheme="http", authority="127.0.0.1\r\nX: y", path="/", encoded=True),
    ],
    ids=range(10),
)
@on_both_loops
async def test_a_url_that_cannot_be_asked_is_not_sent(url: URL) -> None:
    async with calling() as client:
        assert failure(await client.post(url, b"", "a/b"))[0] is Progress.NOT_SENT


@on_both_loops
async def test_a_private_address_is_refused_where_that_is_asked_for() -> None:
    visits = Visits()
    async with serving(visits) as port, calling(allow_private=False) as client:
        outcome = await ask(client, port)
    assert failure(outcome) == (Progress.NOT_SENT, "address_refused")
    assert visits.connections == 0


# Large requests.


@pytest.mark.parametrize("scheme", ["http", "https"])
@on_both_loops
async def test_a_large_request_arrives_whole_at_a_server_that_reads_slowly(
    scheme: str, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def read_slowly(reader: Reader, writer: Writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        count = 0
        while count < len(LARGE):
            part = await reader.read(65_536)
            count += len(part)
            await asyncio.sleep(0)
            assert part == LARGE[: len(part)]
        assert f"Content-Length: {count}".encode() in head
        writer.write(FINE)

    async with (
        serving(read_slowly, tls=server_tls if scheme == "https" else None) as port,
        calling(tls=client_tls) as client,
    ):
        url = URL(f"{scheme}://127.0.0.1:{port}")
        assert await client.post(url, LARGE, "a/b") == ReceivedAnswer(200, b"fine")


@pytest.mark.parametrize("scheme", ["http", "https"])
@on_both_loops
async def test_an_answer_before_the_request_was_read_counts_and_its_line_is_not_used_again(
    scheme: str, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    visits, read_no_more = Visits(), asyncio.Event()

    async def behave(reader: Reader, writer: Writer) -> None:
        if read_no_more.is_set():
            await visits(reader, writer)
            return
        await reader.readuntil(b"\r\n\r\n")
        read_no_more.set()
        writer.write(http(413, b"too much"))
        await asyncio.Event().wait()

    async with (
        serving(behave, tls=server_tls if scheme == "https" else None) as port,
        calling(tls=client_tls) as client,
    ):
        url = URL(f"{scheme}://127.0.0.1:{port}")
        assert await client.post(url, LARGE, "a/b") == ReceivedAnswer(413, b"too much")
        assert await client.post(url, b"small", "a/b") == ReceivedAnswer(200, b"small")


@on_both_loops
async def test_an_early_answer_that_ends_with_the_line_counts() -> None:
    async def behave(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 413 Too Large\r\n\r\ntoo much")
        writer.write_eof()
        await asyncio.Event().wait()

    async with serving(behave) as port, calling() as client:
        assert await ask(client, port, LARGE) == ReceivedAnswer(413, b"too much")


@on_both_loops
async def test_a_large_request_that_is_cut_off_is_sent_no_answer() -> None:
    async with serving(reset_after(100_000)) as port, calling() as client:
        outcome = await ask(client, port, LARGE)
    assert failure(outcome) == (Progress.SENT_NO_ANSWER, "connection_lost")


@on_both_loops
async def test_a_large_request_that_nobody_reads_is_sent_no_answer() -> None:
    async def behave(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(FINE)
        await asyncio.Event().wait()

    async with serving(behave) as port, calling() as client:
        await ask(client, port)
        outcome = await ask(client, port, LARGE, timeout_seconds=0.1)
    assert failure(outcome) == (Progress.SENT_NO_ANSWER, "timeout")


# TLS.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*command.split(), *names, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture
def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def client_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate[0])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@on_both_loops
async def test_tls_lines_are_used_again_and_not_after_the_server_closed_them(
    version: ssl.TLSVersion, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    """Session tickets come unasked, and are no answer."""
    server_tls.maximum_version = version
    server_tls.num_tickets = 4
    connections, goodbye = 0, asyncio.Event()

    async def behave(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        for _ in range(3):
            content = (await read_request(reader)).partition(b"\r\n\r\n")[2]
            writer.write(http(200, content))
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        goodbye.set()

    async with serving(behave, tls=server_tls) as port, calling(tls=client_tls) as client:
        url = URL(f"https://127.0.0.1:{port}")
        for number in range(9):
            content = str(number).encode()
            assert await client.post(url, content, "a/b") == ReceivedAnswer(200, content)
            if number % 3 == 2:
                await goodbye.wait()
                goodbye.clear()
        assert connections == 3


@on_both_loops
async def test_an_answer_over_tls_may_end_with_the_line(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    answer = answering_then_close(b"HTTP/1.0 200 OK\r\n\r\nfine")
    async with serving(answer, tls=server_tls) as port, calling(tls=client_tls) as client:
        url = URL(f"https://127.0.0.1:{port}")
        assert await client.post(url, b"", "a/b") == ReceivedAnswer(200, b"fine")


@pytest.mark.parametrize("trusted", [False, True], ids=["nobody-vouches", "another-name"])
@on_both_loops
async def test_a_certificate_that_is_not_the_servers_is_not_sent_to(
    trusted: bool, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    visits = Visits()
    host, tls = ("localhost", client_tls) if trusted else ("127.0.0.1", None)
    async with serving(visits, tls=server_tls) as port, calling(tls=tls) as client:
        outcome = await client.post(URL(f"https://{host}:{port}"), b"", "a/b")
    assert failure(outcome) == (Progress.NOT_SENT, "tls_failure")
    assert visits.most_out == 0


@on_both_loops
async def test_a_server_that_is_silent_when_tls_starts_is_not_waited_for() -> None:
    async with serving(hang) as port, calling(connect_seconds=0.1, connections=1) as client:
        for _ in range(2):
            outcome = await client.post(URL(f"https://127.0.0.1:{port}"), b"", "a/b")
            assert failure(outcome) == (Progress.NOT_SENT, "connect_timeout")


@pytest.mark.parametrize("hard", [False, True], ids=["closed", "reset"])
@on_both_loops
async def test_a_server_that_disconnects_when_tls_starts_was_sent_nothing(hard: bool) -> None:
    async def leave(reader: Reader, writer: Writer) -> None:
        await reader.readexactly(1)
        if hard:
            reset(writer)

    async with serving(leave) as port, calling(connections=1) as client:
        for _ in range(2):
            outcome = await client.post(URL(f"https://127.0.0.1:{port}"), b"", "a/b")
            progress, code = failure(outcome)
            assert progress is Progress.NOT_SENT
            assert code in ("tls_failure", "connect_failed")


# What is left behind.


@on_both_loops
async def test_calls_that_fail_or_are_cancelled_leave_no_socket_open(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    def sockets() -> int:
        gc.collect()
        return len(os.listdir("/dev/fd"))

    async def leave(reader: Reader, _writer: Writer) -> None:
        await reader.readexactly(1)

    async with (
        serving(leave) as deaf,
        serving(Visits(), tls=server_tls) as distrusted,
        calling(tls=client_tls) as client,
    ):
        await client.post(URL(f"https://localhost:{distrusted}"), b"", "a/b")
        before = sockets()
        for turns in range(30):
            await client.post(URL(f"https://127.0.0.1:{deaf}"), b"", "a/b")
            await client.post(URL(f"https://localhost:{distrusted}"), b"", "a/b")
            call = asyncio.create_task(
                client.post(URL(f"https://127.0.0.1:{distrusted}"), b"", "a/b")
            )
            for _ in range(turns):
                await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.wait([call])
            await client.close()
        for _ in range(1_000):
            if sockets() <= before:
                break
            await asyncio.sleep(0.01)
        assert sockets() <= before


@on_both_loops
async def test_calls_leave_nothing_behind() -> None:
    async def count() -> int:
        gc.collect()
        return len(gc.get_objects())

    async with serving(Visits()) as port, calling() as client:
        await asyncio.gather(*(ask(client, port) for _ in range(20)))
        for _ in range(200):
            await ask(client, port)
        before = await count()
        for _ in range(1_000):
            await ask(client, port)
        assert await count() - before < 500


@on_both_loops
async def test_a_released_connection_is_closed_at_once() -> None:
    def lines() -> int:
        return sum(isinstance(kept, HttpConnection) for kept in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = lines()
        visits = Visits(headers="Connection: close\r\n")
        async with serving(visits) as port, calling() as client:
            for _ in range(10):
                await ask(client, port)
            await visits.until_closed(10)
        assert lines() - before <= 1
    finally:
        gc.enable()

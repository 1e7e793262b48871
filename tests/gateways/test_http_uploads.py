"""The HTTP client with what is larger than memory, and with answers of which nobody wants all."""

import asyncio
from collections.abc import Iterator

import pytest
from yarl import URL

from outrider.domain.call_results import AttemptError, Progress
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from tests.gateways.test_http_client import calling, on_both_loops
from tests.support.broken_server import (
    SHORT_SECONDS,
    Reader,
    Writer,
    hang,
    http,
    read_request,
    serving,
)

PIECE = b"x" * 65_536
PIECES = 1_000
LENGTH = PIECES * len(PIECE)


class Taken:
    """Pieces of a file, and how many of them were asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(PIECES):
            self.count += 1
            yield PIECE


async def upload(client: HttpClient, port: int, pieces: Taken) -> ReceivedAnswer | AttemptError:
    url = URL(f"http://127.0.0.1:{port}/audience")
    return await client.upload(url, pieces, LENGTH, "text/csv", headers={"X-Name": "people"})


@on_both_loops
async def test_an_upload_arrives_whole_and_is_answered() -> None:
    heard: dict[str, object] = {}

    async def behave(reader: Reader, writer: Writer) -> None:
        heard["head"] = (await reader.readuntil(b"\r\n\r\n")).decode()
        heard["bytes"] = len(await reader.readexactly(LENGTH))
        writer.write(http(201, b"{}"))

    async with serving(behave) as port, calling() as client:
        answer = await upload(client, port, Taken())
    assert isinstance(answer, ReceivedAnswer)
    assert (answer.status, heard["bytes"]) == (201, LENGTH)
    head = str(heard["head"])
    assert head.startswith("POST /audience HTTP/1.1\r\n")
    assert f"Content-Type: text/csv\r\nContent-Length: {LENGTH}\r\nX-Name: people\r\n" in head


@on_both_loops
async def test_a_receiver_that_reads_nothing_is_given_up_with_little_in_memory() -> None:
    pieces = Taken()
    async with serving(_never_reads) as port, calling(timeout_seconds=SHORT_SECONDS) as client:
        answer = await upload(client, port, pieces)
    assert isinstance(answer, AttemptError)
    assert (answer.progress, answer.code) == (Progress.SENT_NO_ANSWER, "timeout")
    assert pieces.count < PIECES / 2


@on_both_loops
async def test_a_receiver_that_reads_everything_and_never_answers_is_given_up() -> None:
    async with serving(hang) as port, calling(timeout_seconds=SHORT_SECONDS) as client:
        answer = await upload(client, port, Taken())
    assert isinstance(answer, AttemptError)
    assert answer.code == "timeout"


@on_both_loops
async def test_an_answer_ahead_of_the_rest_ends_the_upload_and_its_line() -> None:
    lines = 0

    async def behave(reader: Reader, writer: Writer) -> None:
        nonlocal lines
        lines += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http(413, b"too large"))
        await writer.drain()
        if lines == 1:
            # Still there: only the client knows that the rest was never sent.
            while await reader.read(65_536):
                pass

    pieces = Taken()
    async with serving(behave) as port, calling() as client:
        answer = await upload(client, port, pieces)
        again = await client.ask("GET", URL(f"http://127.0.0.1:{port}/"))
    assert isinstance(answer, ReceivedAnswer)
    assert isinstance(again, ReceivedAnswer)
    assert (answer.status, again.status, lines) == (413, 413, 2)
    assert pieces.count < PIECES


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@on_both_loops
async def test_an_answer_without_its_body_is_not_waited_for(method: str) -> None:
    heard: list[str] = []

    async def behave(reader: Reader, writer: Writer) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 9999999999\r\n\r\n"
        )
        await reader.read()

    async with serving(behave) as port, calling() as client:
        answer = await client.ask(method, URL(f"http://127.0.0.1:{port}/"), wants_body=False)
    assert isinstance(answer, ReceivedAnswer)
    assert (answer.status, answer.location, answer.body) == (302, "/there", b"")
    assert heard[0].startswith(f"{method} / HTTP/1.1\r\n")
    assert "Content-Length" not in heard[0]


@on_both_loops
async def test_a_post_without_content_says_so() -> None:
    heard: list[str] = []

    async def behave(reader: Reader, writer: Writer) -> None:
        heard.append((await read_request(reader)).decode())
        writer.write(http(200, b""))

    async with serving(behave) as port, calling() as client:
        await client.ask("POST", URL(f"http://127.0.0.1:{port}/"))
    assert "\r\nContent-Length: 0\r\n" in heard[0]
    assert "Content-Type" not in heard[0]


async def _never_reads(_reader: Reader, writer: Writer) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.Event().wait()

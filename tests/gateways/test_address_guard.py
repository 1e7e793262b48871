"""The guard on real sockets: with it on, no spelling and no resolver leads to this host."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outrider.domain.call_results import Accepted, AttemptError, CallResult, Progress
from outrider.gateways.directory import Gateways
from outrider.secrets.store import LocalSecrets
from tests.support.broken_server import (
    MailServer,
    Reader,
    Writer,
    answering,
    http,
    reservation,
    serving,
)

SPELLINGS = [
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001",
    "0177.0.0.1", "0.0.0.0", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "169.254.169.254", "10.0.0.1",
]  # fmt: skip
SPELT_WRONGLY = {"127.1", "2130706433", "017700000001", "0177.0.0.1", "0"}
"""No canonical addresses: aiohttp refuses them before anybody is asked what they mean."""
ADDRESSES = {"sms": "+447700900123", "push": "token", "smtp": "ada@example.test"}


class Visitors:
    """A server that counts who comes and answers every protocol with success."""

    def __init__(self) -> None:
        self.count = 0
        self.mail = MailServer()
        self.web = answering(http(200, b'{"status":"accepted"}'))

    async def serve_web(self, reader: Reader, writer: Writer) -> None:
        self.count += 1
        await self.web(reader, writer)

    async def serve_mail(self, reader: Reader, writer: Writer) -> None:
        self.count += 1
        await self.mail(reader, writer)


@pytest.fixture
async def guarded() -> AsyncIterator[Gateways]:
    gateways = Gateways(LocalSecrets(), allow_private=False)
    yield gateways
    await gateways.close()


@pytest.fixture
async def unguarded() -> AsyncIterator[Gateways]:
    gateways = Gateways(LocalSecrets())
    yield gateways
    await gateways.close()


async def call(gateways: Gateways, gateway_type: str, host: str, port: int) -> CallResult:
    scheme = "smtp" if gateway_type == "smtp" else "http"
    gateway = gateways.gateway("target", gateway_type, f"{scheme}://{host}:{port}")
    return await gateway.call(reservation(ADDRESSES[gateway_type]))


def refused(result: CallResult) -> bool:
    return (
        isinstance(result, AttemptError)
        and (result.progress, result.code) == (Progress.NOT_SENT, "address_refused")
        and "allow_private_gateways" in result.detail
    )


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_a_private_address_is_connected_to(
    guarded: Gateways, host: str
) -> None:
    visitors = Visitors()
    async with serving(visitors.serve_web) as port:
        for gateway_type in ("sms", "push"):
            result = await call(guarded, gateway_type, host, port)
            assert isinstance(result, AttemptError)
            assert result.progress is Progress.NOT_SENT
            assert refused(result) or (host in SPELT_WRONGLY and result.code == "invalid_url")
    async with serving(visitors.serve_mail) as port:
        result = await call(guarded, "smtp", host, port)
        assert refused(result), result
    assert visitors.count == 0


async def test_with_private_gateways_allowed_the_same_calls_go_through(
    unguarded: Gateways,
) -> None:
    visitors = Visitors()
    async with serving(visitors.serve_web) as port:
        for host in ("127.0.0.1", "localhost", "0x7f000001"):
            assert isinstance(await call(unguarded, "sms", host, port), Accepted)
    async with serving(visitors.serve_mail) as port:
        for host in ("127.0.0.1", "localhost", "2130706433"):
            assert isinstance(await call(unguarded, "smtp", host, port), Accepted)
    assert visitors.count > 0


@pytest.mark.parametrize("gateway_type", ["sms", "smtp"])
async def test_a_name_that_was_public_when_it_was_looked_up_before_does_not_help(
    guarded: Gateways, gateway_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: whoever checks a name first and connects later is answered twice."""
    answers = ["93.184.216.34", "127.0.0.1"]
    asked = []

    def rebind(host: str, port: int, *_args: Any, **_options: Any) -> list[Any]:
        asked.append(host)
        answer = answers[min(len(asked) - 1, 1)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    assert socket.getaddrinfo("gateway.example", 80)[0][4][0] == "93.184.216.34"
    visitors = Visitors()
    async with serving(visitors.serve_web) as port:
        result = await call(guarded, gateway_type, "gateway.example", port)
    assert refused(result), result
    assert asked[1:] == ["gateway.example"]
    assert visitors.count == 0


@pytest.mark.parametrize("gateway_type", ["sms", "smtp"])
async def test_a_name_with_several_private_addresses_is_refused_as_one(
    guarded: Gateways, gateway_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(_host: str, port: int, *_args: Any, **_options: Any) -> list[Any]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    assert refused(await call(guarded, gateway_type, "gateway.example", 80))

"""A name server on loopback, over UDP and TCP, that answers as well or as badly as its zone says.

A zone maps a domain to its records, as text, or to a `Trouble`. Every question is remembered.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

TTL_SECONDS = 60


class Trouble(Enum):
    SERVFAIL = "servfail"
    SERVFAIL_ONCE = "servfail once"
    SILENCE = "silence"
    GARBAGE = "garbage"


Zone = Mapping[str, Mapping[str, list[str]] | Trouble]


class NameServer(asyncio.DatagramProtocol):
    """Answers from a zone; a domain that is not in it does not exist."""

    def __init__(self, zone: Zone, *, truncates: bool = False) -> None:
        self.zone = zone
        self.truncates = truncates
        self.address = ""
        self.asked: list[tuple[str, str]] = []
        self.asked_by_tcp = 0
        self._udp: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transport of Python 3.11 is of this kind without saying so.
        self._udp = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._udp is not None
        answer = self.answer(data, truncates=self.truncates)
        if answer is not None:
            self._udp.sendto(answer, addr)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2))
        self.asked_by_tcp += 1
        answer = self.answer(await reader.readexactly(size), truncates=False)
        if answer is not None:
            writer.write(len(answer).to_bytes(2) + answer)
        writer.close()

    def answer(self, wire: bytes, *, truncates: bool) -> bytes | None:
        query = dns.message.from_wire(wire)
        [question] = query.question
        name = question.name.to_text(omit_final_dot=True)
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        response = dns.message.make_response(query)
        records = self.zone.get(name)
        if records is Trouble.SERVFAIL_ONCE:
            records = Trouble.SERVFAIL if self.asked.count((name, kind)) == 1 else {"MX": ["1 mx."]}
        match records:
            case None:
                response.set_rcode(dns.rcode.NXDOMAIN)
            case Trouble.SILENCE:
                return None
            case Trouble.GARBAGE:
                return wire[:2] + b"\xff" * 20
            case Trouble.SERVFAIL:
                response.set_rcode(dns.rcode.SERVFAIL)
            case Mapping() if truncates:
                response.flags |= dns.flags.TC
            case Mapping() if kind in records:
                response.answer.append(
                    dns.rrset.from_text(question.name, TTL_SECONDS, "IN", kind, *records[kind])
                )
        return response.to_wire()


@asynccontextmanager
async def name_server(zone: Zone, *, truncates: bool = False) -> AsyncIterator[NameServer]:
    server = NameServer(zone, truncates=truncates)
    loop = asyncio.get_running_loop()
    tcp = await asyncio.start_server(server.converse, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    transport, _ = await loop.create_datagram_endpoint(
        lambda: server, local_addr=("127.0.0.1", port)
    )
    server.address = f"127.0.0.1:{port}"
    try:
        yield server
    finally:
        transport.close()
        tcp.close()
        await tcp.wait_closed()

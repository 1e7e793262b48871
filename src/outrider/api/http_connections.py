"""HTTP connections with limits: how long a request may take to arrive, and how many at once.

Silent connections are cut off after a while, and sooner if there are too many of them, so that they
never use up the file handles that other clients need.
"""

import asyncio
from collections import OrderedDict
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from outrider.limits.api import ApiLimits

log = structlog.get_logger()

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Arrivals:
    """The connections whose request has not arrived yet, oldest first, by the client's address."""

    def __init__(self, limits: ApiLimits, connections_max: int) -> None:
        self.limits = limits
        self.connections_max = connections_max
        self._by_address: dict[str, OrderedDict[BoundedHttpProtocol, None]] = {}

    def add(self, address: str, connection: "BoundedHttpProtocol") -> None:
        waiting = self._by_address.setdefault(address, OrderedDict())
        waiting[connection] = None
        if len(waiting) > self.limits.arriving_per_address:
            self._cut_oldest(waiting)

    def remove(self, address: str, connection: "BoundedHttpProtocol") -> None:
        waiting = self._by_address.get(address)
        if waiting is None:
            return
        waiting.pop(connection, None)
        if not waiting:
            del self._by_address[address]

    def make_room(self) -> bool:
        """Cut the oldest connection of the client with the most; False if there is none."""
        if not self._by_address:
            return False
        self._cut_oldest(max(self._by_address.values(), key=len))
        return True

    def _cut_oldest(self, waiting: "OrderedDict[BoundedHttpProtocol, None]") -> None:
        next(iter(waiting)).cut("too_many_arriving")


def bounded_protocol(limits: ApiLimits, connections_max: int) -> type[HttpToolsProtocol]:
    """The protocol of a server that accepts this many connections."""
    arrivals = Arrivals(limits, connections_max)
    return type("LimitedHttpProtocol", (BoundedHttpProtocol,), {"arrivals": arrivals})


class BoundedHttpProtocol(HttpToolsProtocol):
    arrivals: Arrivals

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._address = ""
        self._alarm: asyncio.TimerHandle | None = None
        self._body_is_due = False
        self._is_cut = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if len(self.connections) > self.arrivals.connections_max and not self.arrivals.make_room():
            self.cut("too_many_connections")
            return
        self._arrives()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_cut:
            return
        super().data_received(data)
        if self._body_is_due:
            self._set_alarm(self.arrivals.limits.body_silence_seconds)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._alarm is None:
            # Another request on the same connection.
            self._arrives()

    def on_headers_complete(self) -> None:
        self.arrivals.remove(self._address, self)
        self._body_is_due = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._has_arrived()
        super().on_message_complete()

    def cut(self, why: str) -> None:
        """Without a response: no complete request has arrived."""
        self._is_cut = True
        self._has_arrived()
        log.warning("connection_cut", why=why, client=self._address)
        self.transport.abort()

    def _arrives(self) -> None:
        self._set_alarm(self.arrivals.limits.header_seconds)
        self.arrivals.add(self._address, self)

    def _has_arrived(self) -> None:
        self._body_is_due = False
        self.arrivals.remove(self._address, self)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self.loop.call_later(seconds, self._rings)

    def _rings(self) -> None:
        self._alarm = None
        if self._body_is_due and self.flow.read_paused:
            # We are the ones not reading.
            self._set_alarm(self.arrivals.limits.body_silence_seconds)
            return
        log.warning("request_too_slow", client=self._address, body=self._body_is_due)
        if not self._body_is_due:
            self.transport.write(TOO_SLOW)
        self._is_cut = True
        self._has_arrived()
        self.transport.close()

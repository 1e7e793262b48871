"""The witness gateway's own process: `python -m tests.support.witness_gateway_process --log FILE`.

Plain sockets instead of a web framework: only so can a connection be reset unread, an answer stop
after a byte, and the kernel be asked when a request's first bytes arrived.
"""

import argparse
import asyncio
import random
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.support.witness_control import Control, Script
from tests.support.witness_log import ACCEPTED, WitnessLog

# Linux: software time stamps of what is received, from <linux/net_tstamp.h>.
SO_TIMESTAMPING = 37
RECEIVED_BY_SOFTWARE = (1 << 3) | (1 << 4)
ANCILLARY_BYTES = 256
READ_BYTES = 65_536
BACKLOG = 1_024
RESET = struct.pack("ii", 1, 0)
TEXT_CHARACTERS = 200

REASONS = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable"}  # fmt: skip


class GatewayScript(Script, frozen=True, rename="camel", forbid_unknown_fields=True):
    latency_seconds: float = 0.0
    latency_of: dict[str, float] = msgspec.field(default_factory=dict)
    throttle_status: int | None = None
    throttle_share: float = 1.0
    retry_after_seconds: int | None = None
    fault: Literal["none", "reset_unread", "reset_read", "never_answer", "trickle"] = "none"
    trickle_seconds: float = 0.05
    connections_most: int | None = None
    connections_beyond: Literal["answer_503", "reset", "refuse"] = "answer_503"
    away: bool = False
    failing_marker: str | None = None
    dedupes: bool = False


class Gateway:
    """The listening socket, its connections, and what to do with the next request."""

    def __init__(self, log: WitnessLog) -> None:
        self.log = log
        self.control = Control(GatewayScript(), log, self._apply)
        self.connections: set[Connection] = set()
        self._random = random.Random(0)
        self._taken: set[str] = set()
        self._listener: socket.socket | None = None
        # Bound and never listening: while the gateway is away, nobody else can have its port.
        self._holder = self._bound(0)
        self.port: int = self._holder.getsockname()[1]

    async def start(self) -> str:
        self._listen()
        return f"http://127.0.0.1:{self.port}"

    def left(self, connection: "Connection") -> None:
        self.connections.discard(connection)
        self._listen_unless_full()

    def status_of(self, reference: str, body: bytes) -> int:
        """The HTTP status of the answer; 0 is the family's own word for a duplicate."""
        script = self.control.script
        if script.throttle_status and self._random.random() < script.throttle_share:
            return script.throttle_status
        if script.failing_marker and script.failing_marker.encode() in body:
            return 500
        if script.dedupes and reference in self._taken:
            return 0
        self._taken.add(reference)
        return 200

    async def _apply(self, script: GatewayScript) -> None:
        if script.away:
            self._stop_listening()
            for connection in list(self.connections):
                connection.reset()
        else:
            self._listen_unless_full()

    def _listen_unless_full(self) -> None:
        script = self.control.script
        refuses = script.connections_beyond == "refuse" and script.connections_most is not None
        if script.away or (refuses and len(self.connections) >= (script.connections_most or 0)):
            self._stop_listening()
        elif self._listener is None:
            self._listen()

    def _bound(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("127.0.0.1", port))
        made.setblocking(False)
        return made

    def _listen(self) -> None:
        self._listener = self._bound(self.port)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RECEIVED_BY_SOFTWARE)
        self._listener.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                line, _ = self._listener.accept()
            except BlockingIOError:
                return
            script = self.control.script
            most = script.connections_most
            is_beyond = most is not None and len(self.connections) >= most
            if is_beyond and script.connections_beyond == "reset":
                _reset(line)
                continue
            self.connections.add(Connection(self, line, turned_away=is_beyond))
            self._listen_unless_full()


class Connection:
    """One client's connection: requests come one after the other."""

    def __init__(self, gateway: Gateway, line: socket.socket, *, turned_away: bool) -> None:
        line.setblocking(False)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._gateway = gateway
        self._line = line
        self._turned_away = turned_away
        self._unread = b""
        self._began_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(line, self._readable)

    def reset(self) -> None:
        """As if the gateway's machine had gone: the client gets a reset instead of an end."""
        if self._is_open:
            self._line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.close()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._line)
        self._line.close()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._gateway.left(self)

    def _readable(self) -> None:
        if self._gateway.control.script.fault == "reset_unread" and not self._unread:
            if self._task is None:
                self._gateway.log.begin(
                    beganAt=time.time(), endedAt=time.time(), outcome="reset_unread"
                )
            self.reset()
            return
        try:
            data, ancillary, _, _ = self._line.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            if self._unread and self._task is None:
                self._gateway.log.begin(beganAt=self._began_at, outcome="cut")
            self.close()
            return
        if not self._unread:
            self._began_at = _arrival(ancillary)
        self._unread += data
        if self._task is None:
            self._take()

    def _take(self) -> None:
        """Answer the next request, once it is here as a whole."""
        head, separator, rest = self._unread.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _content_length(head)
        if len(rest) < length:
            return
        body, self._unread = rest[:length], rest[length:]
        path = head.split(b" ", 2)[1].decode()
        self._task = asyncio.create_task(self._answer(path, body, self._began_at))

    async def _answer(self, path: str, body: bytes, began_at: float) -> None:
        script, log = self._gateway.control.script, self._gateway.log
        given = _document(body)
        reference, to = str(given.get("referenceId", "")), str(given.get("to", given.get("token")))
        status = 503 if self._turned_away else self._gateway.status_of(reference, body)
        outcome = _outcome(path, status)
        if script.fault not in ("none", "trickle"):
            outcome = script.fault
        text = str(given.get("message", given.get("body", "")))[:TEXT_CHARACTERS]
        number = log.begin(
            beganAt=began_at, referenceId=reference, to=to, path=path, text=text, outcome=outcome
        )
        try:
            await self._act(script, number, outcome, status, reference, to)
        except (asyncio.CancelledError, OSError):
            log.add(number, outcome="abandoned", endedAt=None)
            self.close()
            return
        self._task = None
        if self._turned_away:
            self.close()
        elif self._unread and self._is_open:
            self._take()

    async def _act(
        self, script: GatewayScript, number: int, outcome: str, status: int, reference: str, to: str
    ) -> None:
        log = self._gateway.log
        latency = script.latency_of.get(to, script.latency_seconds)
        if latency:
            await asyncio.sleep(latency)
        if script.fault == "never_answer":
            await asyncio.Event().wait()
        if script.fault == "reset_read":
            log.end(number)
            self.reset()
            return
        answer = _http_answer(outcome, status, reference, script.retry_after_seconds)
        answered_at = time.time()
        if script.fault != "trickle":
            # Before it is sent: whoever has read it may look here before this process goes on.
            log.end(number, endedAt=answered_at)
            self._line.send(answer)
            return
        for at in range(len(answer)):
            self._line.send(answer[at : at + 1])
            await asyncio.sleep(script.trickle_seconds)
        log.end(number, endedAt=answered_at)


def _outcome(path: str, status: int) -> str:
    if not path.endswith(("/sms/send", "/push/send")):
        return "http_404"
    if status == 0:
        return "duplicate_reference"
    return ACCEPTED if status == 200 else f"http_{status}"


def _http_answer(outcome: str, status: int, reference: str, retry_after: int | None) -> bytes:
    if outcome == "http_404":
        status = 404
    document: dict[str, Any] = {"status": "accepted", "referenceId": reference}
    if outcome == "duplicate_reference":
        status = 200
        document = {"status": "rejected", "reason": outcome, "referenceId": reference}
    elif status != 200:
        document = {"error": REASONS[status]}
    body = msgspec.json.encode(document)
    has_retry_after = retry_after is not None and status in (429, 503)
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Retry-After: {retry_after}"] if has_retry_after else []),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _arrival(ancillary: list[tuple[int, int, bytes]]) -> float:
    """When the kernel got the bytes; this process may have been given the processor later."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING and len(data) >= 16:
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            if seconds:
                return float(seconds + nanoseconds / 1e9)
    return time.time()


def _reset(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    line.close()


async def _main(log_path: Path) -> None:
    gateway = Gateway(WitnessLog(log_path))
    url = await gateway.start()
    said = {"url": url, "control": await gateway.control.serve()}
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    asyncio.run(_main(parser.parse_args().log))

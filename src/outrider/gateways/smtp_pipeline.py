"""MAIL, RCPT and DATA in one write, where the server offers it (PIPELINING, RFC 2920).

Every reply is read, in order, so that it is known which command was refused. The body is never part
of the group: it leaves after a 354 to a recipient that was accepted, and only its own reply says
what happened to it.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from aiosmtplib import SMTPResponse, SMTPResponseException, SMTPServerDisconnected

from outrider.gateways.mail_server import Waits
from outrider.gateways.smtp_answers import CLOSING, START_INPUT, Step
from outrider.limits.gateways import SMTP_REPLY_MAX_BYTES

NO_REPLY_CODE: Final = -1
"""As the library says it of a line that is no reply."""


class Introduced(NamedTuple):
    """How far a message got before its body: the step that was refused, or DATA and its 354."""

    step: Step
    reply: SMTPResponse
    in_step: bool = True
    """Whether the server waits for a command, or for the body after a 354, as its replies say."""


class ReplyReader(asyncio.Protocol):
    """Takes the place of the library's protocol for one group: that one keeps one reply at a time
    and drops what arrives before it is read."""

    def __init__(self, usual: asyncio.BaseProtocol) -> None:
        self._usual = usual
        self._buffer = b""
        self._texts: list[str] = []
        self._replies: deque[SMTPResponse] = deque()
        self._lost: Exception | None = None
        self._arrived = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._lost is None:
            line, end, rest = self._buffer.partition(b"\n")
            if not end:
                break
            self._buffer = rest
            self._line(line)
        if len(self._buffer) + sum(map(len, self._texts)) > SMTP_REPLY_MAX_BYTES:
            self._lost = SMTPResponseException(NO_REPLY_CODE, "Response too long")
        self._arrived.set()

    def _line(self, line: bytes) -> None:
        if not line[:3].isdigit():
            said = line.decode("utf-8", "replace")
            self._lost = SMTPResponseException(NO_REPLY_CODE, f"Malformed SMTP response: {said}")
            return
        self._texts.append(line[4:].strip(b" \t\r").decode("utf-8", "surrogateescape"))
        if line[3:4] != b"-":
            self._replies.append(SMTPResponse(int(line[:3]), "\n".join(self._texts)))
            self._texts = []

    def connection_lost(self, error: Exception | None) -> None:
        if self._lost is None:
            self._lost = SMTPServerDisconnected("Connection lost")
            self._lost.__cause__ = error
        self._arrived.set()
        self._usual.connection_lost(error)

    async def reply(self, seconds: float) -> SMTPResponse:
        async with asyncio.timeout(seconds):
            while not self._replies:
                if self._lost is not None:
                    raise self._lost
                self._arrived.clear()
                await self._arrived.wait()
        return self._replies.popleft()

    @property
    def is_empty(self) -> bool:
        """Whether nothing came that nobody asked for."""
        return not (self._buffer or self._texts or self._replies)


async def introduce(
    transport: asyncio.Transport, usual: asyncio.BaseProtocol, group: bytes, waits: Waits
) -> Introduced:
    """Write the group and read its replies. Raises if the connection ends before a refusal."""
    reader = ReplyReader(usual)
    transport.set_protocol(reader)
    try:
        transport.write(group)
        return await _read(reader, waits)
    finally:
        if not transport.is_closing():
            transport.set_protocol(usual)


async def _read(reader: ReplyReader, waits: Waits) -> Introduced:
    refused: Introduced | None = None
    for step, seconds in (
        (Step.MAIL, waits.mail),
        (Step.RCPT, waits.rcpt),
        (Step.DATA, waits.data),
    ):
        try:
            reply = await reader.reply(seconds)
        except (SMTPResponseException, SMTPServerDisconnected, OSError):
            if refused is None:
                raise
            # What was refused stays refused; only the connection is of no more use.
            return refused._replace(in_step=False)
        fine = reply.code == START_INPUT if step is Step.DATA else reply.code // 100 == 2
        if refused is None and (not fine or step is Step.DATA):
            refused = Introduced(step, reply)
        elif refused is not None and reply.code == START_INPUT:
            # It would take a body for nobody (RFC 2920, 3.1). It gets none.
            return refused._replace(in_step=False)
        if reply.code == CLOSING:
            break
    assert refused is not None
    return refused if reader.is_empty else refused._replace(in_step=False)

"""The mail witness's own process: `python -m tests.support.smtp_witness_process --log FILE`."""

import argparse
import asyncio
import random
import socket
import sys
import time
from email import policy
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Literal

import msgspec
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.witness_control import Control, Script
from tests.support.witness_log import ACCEPTED, WitnessLog

BACKLOG = 1_024
MESSAGE_MAX_BYTES = 16 * 1024 * 1024
COMMANDS_MOST = 100_000
TOO_MANY_CONNECTIONS = "421 4.7.0 Error: too many connections from 127.0.0.1"
TOO_MANY_MESSAGES = "421 4.7.0 Too many messages in this session, closing"
TOO_FAST = "454 4.7.0 Throttling failure: Maximum sending rate exceeded"


class MailScript(Script, frozen=True, rename="camel", forbid_unknown_fields=True):
    connections_most: int | None = None
    messages_per_connection: int | None = None
    rate_per_second: float | None = None
    refuse_at: Literal["MAIL", "RCPT", "DATA", "END"] | None = None
    refuse_with: str = ""
    refuse_share: float = 1.0
    end_of_data_seconds: float = 0.0
    end_of_data_spread_seconds: float = 0.0
    end_of_data_of: dict[str, float] = msgspec.field(default_factory=dict)
    drop: Literal["none", "at_mail", "before_reply"] = "none"
    away: bool = False


class MailServer:
    """The listening socket, its sessions, and what to reply next."""

    def __init__(self, log: WitnessLog) -> None:
        self.log = log
        self.control = Control(MailScript(), log, self._apply)
        self.sessions: set[WatchedSession] = set()
        self.random = random.Random(0)
        self._accepted_at: list[float] = []
        self._server: asyncio.Server | None = None
        # Bound and never listening: while the server is away, nobody else can have its port.
        self._holder = self._bound(0)
        self.port: int = self._holder.getsockname()[1]

    async def start(self) -> str:
        await self._listen()
        return f"smtp://127.0.0.1:{self.port}"

    def refusal(self, command: str) -> str | None:
        """What is replied to this command instead of its success."""
        script = self.control.script
        if script.refuse_at != command or self.random.random() >= script.refuse_share:
            return None
        return script.refuse_with

    def is_too_fast(self) -> bool:
        rate, now = self.control.script.rate_per_second, time.monotonic()
        if rate is None:
            return False
        self._accepted_at = [at for at in self._accepted_at if at > now - 1]
        if len(self._accepted_at) >= rate:
            return True
        self._accepted_at.append(now)
        return False

    async def _apply(self, script: MailScript) -> None:
        if not script.away:
            if self._server is None:
                await self._listen()
            return
        if self._server is not None:
            self._server.close()
            self._server = None
        for session in list(self.sessions):
            session.abort()

    def _bound(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("127.0.0.1", port))
        return made

    async def _listen(self) -> None:
        listener = self._bound(self.port)
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol, sock=listener, backlog=BACKLOG
        )

    def _protocol(self) -> asyncio.BaseProtocol:
        most = self.control.script.connections_most
        if most is not None and len(self.sessions) >= most:
            return TurnedAway()
        return WatchedSession(self)


class TurnedAway(asyncio.Protocol):
    """A connection beyond the limit: it hears 421, and that was it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"{TOO_MANY_CONNECTIONS}\r\n".encode())
        transport.close()


class WatchedSession(SMTP):
    """One connection; the transaction under way has a number in the log."""

    def __init__(self, server: MailServer) -> None:
        super().__init__(
            Replies(server, self),
            hostname="witness",
            data_size_limit=MESSAGE_MAX_BYTES,
            command_call_limit=COMMANDS_MOST,
            loop=asyncio.get_running_loop(),
        )
        self._server = server
        self.messages = 0
        self.number = 0
        # Counted from here on: several connections may be accepted before one of them is greeted.
        server.sessions.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._server.sessions.discard(self)

    def abort(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    async def close_after_reply(self) -> None:
        """421 promises that the connection is closed; the reply leaves first."""
        await asyncio.sleep(0)
        if isinstance(self.transport, asyncio.Transport):
            self.transport.close()


class Replies:
    """What is replied to MAIL, RCPT, DATA and the end of a message."""

    def __init__(self, server: MailServer, session: WatchedSession) -> None:
        self._server = server
        self._session = session
        self._log = server.log
        self._closing: asyncio.Task[None] | None = None

    async def handle_MAIL(
        self, _smtp: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        script, watched = self._server.control.script, self._session
        watched.number = self._log.begin(beganAt=time.time(), outcome="mail")
        watched.messages += 1
        most = script.messages_per_connection
        if most is not None and watched.messages > most:
            return self._refused(TOO_MANY_MESSAGES)
        if script.drop == "at_mail":
            return await self._dropped()
        if refusal := self._server.refusal("MAIL"):
            return self._refused(refusal)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, _smtp: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        self._log.add(self._session.number, to=address, outcome="rcpt")
        if refusal := self._server.refusal("RCPT"):
            return self._refused(refusal)
        if refusal := self._server.refusal("DATA"):
            # The library asks for the body by itself, so DATA is refused one command earlier.
            return self._refused(refusal)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _smtp: SMTP, _session: Session, envelope: Envelope) -> str:
        script, number = self._server.control.script, self._session.number
        headers = BytesHeaderParser(policy=policy.default).parsebytes(
            envelope.original_content or b""
        )
        self._log.add(
            number,
            referenceId=str(headers.get("X-Outrider-Reference", "")),
            text=str(headers.get("Subject", "")),
            outcome="body",
        )
        try:
            await asyncio.sleep(self._seconds(script, envelope.rcpt_tos))
        except asyncio.CancelledError:
            self._log.add(number, outcome="abandoned")
            raise
        if script.drop == "before_reply":
            return await self._dropped()
        if refusal := self._server.refusal("END"):
            return self._refused(refusal)
        if self._server.is_too_fast():
            return self._refused(TOO_FAST)
        self._log.end(number, outcome=ACCEPTED)
        return f"250 2.0.0 queued as witness-{number}"

    def _seconds(self, script: MailScript, recipients: list[str]) -> float:
        given = [script.end_of_data_of[to] for to in recipients if to in script.end_of_data_of]
        spread = self._server.random.random() * script.end_of_data_spread_seconds
        return (given[0] if given else script.end_of_data_seconds) + spread

    def _refused(self, reply: str) -> str:
        self._log.end(self._session.number, outcome=f"refused_{reply[:3]}")
        if reply.startswith("421"):
            self._closing = asyncio.create_task(self._session.close_after_reply())
        return reply

    async def _dropped(self) -> str:
        self._log.end(self._session.number, outcome="dropped")
        self._session.abort()
        # Losing the connection cancels this session, so no reply can follow.
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


async def _main(log_path: Path) -> None:
    server = MailServer(WitnessLog(log_path))
    said = {"url": await server.start(), "control": await server.control.serve()}
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    asyncio.run(_main(parser.parse_args().log))

"""The provider simulator: real HTTP and SMTP servers that can be told to misbehave.

Each request is decided, counted and written to the log before its answer leaves, so the log is a
witness of what the provider received that survives whatever happens to the caller.
"""

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Self, assert_never

import msgspec
from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session

from outrider.domain.submission import DUPLICATE_REFERENCE
from outrider.settings import SANDBOX_BODY_MAX_BYTES, SANDBOX_STOP_SECONDS

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=86_400_000)]

_PHONE = re.compile(r"\+[0-9]+\Z")


class Faults(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """How the simulator misbehaves. The rates are shares of all requests and add up."""

    latency_ms: Amount = 0.0
    fail_rate: Rate = 0.0
    drop_rate: Rate = 0.0
    throttle_rate: Rate = 0.0
    retry_after_seconds: Amount = 1.0
    dedupe: bool = True
    seed: int | None = None


class Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DUPLICATE_REFERENCE = DUPLICATE_REFERENCE
    DROPPED = "dropped"
    THROTTLED = "throttled"


class Sandbox:
    """`async with Sandbox() as sandbox:` serves `sandbox.http_url` and `sandbox.smtp_url`."""

    def __init__(
        self,
        faults: Faults | None = None,
        *,
        log_path: Path | None = None,
        host: str = "127.0.0.1",
        http_port: int = 0,
        smtp_port: int = 0,
    ) -> None:
        self.faults = faults or Faults()
        self.requests = 0
        self.outcomes: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        """How often each reference was delivered; also the memory that dedupes."""
        self._random = random.Random(self.faults.seed)
        self._log_path = log_path
        self._log: BinaryIO | None = None
        self._host, self._http_port, self._smtp_port = host, http_port, smtp_port
        self._http: web.ServerRunner | None = None
        self._smtp: asyncio.Server | None = None
        self.mail_sessions: set[_MailSession] = set()

    async def start(self) -> None:
        if self._log_path is not None:
            # Unbuffered: a line that was written is with the operating system.
            self._log = self._log_path.open("ab", buffering=0)
        self._http = web.ServerRunner(
            web.Server(self._serve_http, access_log=None), shutdown_timeout=SANDBOX_STOP_SECONDS
        )
        await self._http.setup()
        await web.TCPSite(self._http, self._host, self._http_port).start()
        self._http_port = self._http.addresses[0][1]
        loop = asyncio.get_running_loop()
        self._smtp = await loop.create_server(
            lambda: _MailSession(self, loop), self._host, self._smtp_port
        )
        self._smtp_port = self._smtp.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
            await asyncio.gather(*(session.hang_up() for session in list(self.mail_sessions)))
        if self._http is not None:
            await self._http.cleanup()
        if self._log is not None:
            self._log.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def http_url(self) -> str:
        return f"http://{self._host}:{self._http_port}"

    @property
    def smtp_url(self) -> str:
        return f"smtp://{self._host}:{self._smtp_port}"

    def change_faults(self, changes: dict[str, Any]) -> None:
        """Replace the named ones, all or nothing; naming the seed starts the dice again."""
        self.faults = msgspec.convert({**msgspec.to_builtins(self.faults), **changes}, Faults)
        if "seed" in changes:
            self._random = random.Random(self.faults.seed)

    def received(self) -> dict[str, object]:
        """`duplicates` counts harm done: deliveries of a reference beyond its first."""
        delivered = self.deliveries.total()
        return {
            "requests": self.requests,
            "delivered": delivered,
            "duplicates": delivered - len(self.deliveries),
            "outcomes": dict(self.outcomes),
        }

    def decide(self, protocol: str, reference: str, to: str, *, dedupes: bool) -> Outcome:
        """Roll the dice for a valid request and record it. No await: two requests cannot race."""
        faults, dice = self.faults, self._random.random()
        known = dedupes and faults.dedupe and reference in self.deliveries
        if dice < faults.throttle_rate:
            outcome = Outcome.THROTTLED
        elif dice < faults.throttle_rate + faults.drop_rate:
            outcome = Outcome.DROPPED
        elif known:
            # Before failure: a provider that has the message must not say that it failed.
            outcome = Outcome.DUPLICATE_REFERENCE
        elif dice < faults.throttle_rate + faults.drop_rate + faults.fail_rate:
            outcome = Outcome.REJECTED
        else:
            outcome = Outcome.ACCEPTED
        delivered = outcome in (Outcome.ACCEPTED, Outcome.DROPPED) and not known
        self.record(protocol, reference, to, outcome, delivered=delivered)
        return outcome

    def record(
        self, protocol: str, reference: str, to: str, outcome: Outcome, *, delivered: bool = False
    ) -> None:
        self.requests += 1
        self.outcomes[outcome.value] += 1
        if delivered:
            self.deliveries[reference] += 1
        if self._log is not None:
            line = {
                "at": datetime.now(UTC).isoformat(),
                "protocol": protocol,
                "referenceId": reference,
                "to": to,
                "outcome": outcome.value,
                "delivered": delivered,
            }
            self._log.write(msgspec.json.encode(line) + b"\n")

    async def wait(self) -> None:
        """The provider's own slowness, after the request is on record and before its answer."""
        if self.faults.latency_ms:
            await asyncio.sleep(self.faults.latency_ms / 1000)

    async def _serve_http(self, request: web.BaseRequest) -> web.StreamResponse:
        route = _ROUTES.get((request.method, request.path))
        if route is None:
            return _json({"error": "there is nothing here"}, 404)
        if (request.content_length or 0) > SANDBOX_BODY_MAX_BYTES:
            return _json({"status": "rejected", "reason": "invalid_request"}, 413)
        return await route(self, request)

    async def _send(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.path.split("/")[1]
        document = _decode(await request.read())
        reference, to = _text(document, "referenceId"), _text(document, _ADDRESS[protocol])
        reason = _problem(protocol, document)
        if reason is not None:
            self.record(protocol, reference, to, Outcome.REJECTED)
            await self.wait()
            return _json({"status": "rejected", "reason": reason, "referenceId": reference}, 400)
        outcome = self.decide(protocol, reference, to, dedupes=True)
        message_id = f"sandbox-{self.requests}"
        await self.wait()
        answer = {"referenceId": reference}
        match outcome:
            case Outcome.ACCEPTED:
                return _json(answer | {"status": "accepted", "gatewayMessageId": message_id})
            case Outcome.REJECTED:
                return _json(answer | {"status": "rejected", "reason": "provider_failure"})
            case Outcome.DUPLICATE_REFERENCE:
                return _json(answer | {"status": "rejected", "reason": DUPLICATE_REFERENCE})
            case Outcome.THROTTLED:
                throttled = _json(answer | {"error": "too many requests"}, 429)
                throttled.headers["Retry-After"] = str(math.ceil(self.faults.retry_after_seconds))
                return throttled
            case Outcome.DROPPED:
                if request.transport is not None:
                    request.transport.close()
                return web.Response()
            case other:
                assert_never(other)

    async def _put_faults(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            changes = msgspec.json.decode(await request.read(), type=dict[str, Any])
            self.change_faults(changes)
        except (msgspec.DecodeError, RecursionError) as error:
            return _json({"error": str(error)}, 400)
        return _json(self.faults)

    async def _get_faults(self, _request: web.BaseRequest) -> web.StreamResponse:
        return _json(self.faults)

    async def _get_received(self, _request: web.BaseRequest) -> web.StreamResponse:
        return _json(self.received())


Route = Callable[[Sandbox, web.BaseRequest], Awaitable[web.StreamResponse]]

_ADDRESS = {"sms": "to", "push": "token"}
_ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/sms/send"): Sandbox._send,
    ("POST", "/push/send"): Sandbox._send,
    ("GET", "/sandbox/faults"): Sandbox._get_faults,
    ("PUT", "/sandbox/faults"): Sandbox._put_faults,
    ("GET", "/sandbox/received"): Sandbox._get_received,
}


class _MailSession(SMTP):
    """One SMTP connection, which the simulator can close when it stops."""

    def __init__(self, sandbox: Sandbox, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            _Mailroom(sandbox),
            hostname="sandbox",
            data_size_limit=SANDBOX_BODY_MAX_BYTES,
            loop=loop,
        )
        self._open_sessions = sandbox.mail_sessions

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open_sessions.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._open_sessions.discard(self)

    async def hang_up(self) -> None:
        conversation = self._handler_coroutine
        if self.transport is not None:
            self.transport.close()
        if conversation is not None:
            await asyncio.wait([conversation])


class _Mailroom:
    """What the simulator answers to RCPT and to a whole message."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address.startswith("reject"):
            self._sandbox.record("smtp", "", address, Outcome.REJECTED)
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:
        sandbox = self._sandbox
        headers = BytesHeaderParser().parsebytes(envelope.original_content or b"")
        reference = str(headers.get("X-Outrider-Reference", ""))
        # Mail servers know nothing of references: whatever the faults say, this never dedupes.
        outcome = sandbox.decide("smtp", reference, ", ".join(envelope.rcpt_tos), dedupes=False)
        number = sandbox.requests
        await sandbox.wait()
        match outcome:
            case Outcome.ACCEPTED:
                return f"250 2.0.0 queued as sandbox-{number}"
            case Outcome.REJECTED:
                return "451 4.3.0 the simulator was told to fail"
            case Outcome.THROTTLED:
                return "450 4.7.0 too many messages"
            case Outcome.DUPLICATE_REFERENCE:
                raise AssertionError("a mail server never dedupes")
            case Outcome.DROPPED:
                if server.transport is not None:
                    server.transport.close()
                # Losing the connection cancels this session, so no reply can follow.
                never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                return await never
            case other:
                assert_never(other)


def references_delivered(log_path: Path) -> Counter[str]:
    """How often each reference was delivered, read from the request log alone."""
    delivered: Counter[str] = Counter()
    with log_path.open("rb") as lines:
        for line in lines:
            entry = msgspec.json.decode(line)
            if entry["delivered"]:
                delivered[entry["referenceId"]] += 1
    return delivered


def _problem(protocol: str, document: dict[str, Any]) -> str | None:
    """Why the provider refuses this request, in the gateway type's taxonomy."""
    if not _text(document, "referenceId"):
        return "invalid_request"
    if protocol == "push":
        token = _text(document, "token")
        if not token:
            return "invalid_request"
        return "unregistered_token" if token.startswith("unregistered") else None
    if not _PHONE.match(_text(document, "to")):
        return "invalid_recipient"
    return None if _text(document, "message") else "invalid_message"


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _decode(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document), status=status, content_type="application/json"
    )

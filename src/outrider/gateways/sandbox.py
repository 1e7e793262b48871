"""The provider simulator: real HTTP and SMTP servers that can be made to misbehave.

Each request is decided, counted and written to the log before its answer is sent, so the log is a
record of what the provider received that survives whatever happens to the caller.
"""

import asyncio
import hashlib
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec
from aiohttp import web

from outrider.gateways.sandbox_emitter import DeliveredMessage, ReceiptEmitter, ReceiptPlan
from outrider.gateways.sandbox_faults import Faults
from outrider.gateways.sandbox_files import ReceivedFile
from outrider.gateways.sandbox_http2 import Http2Server
from outrider.gateways.sandbox_look_ups import by_reference, kept, listed
from outrider.gateways.sandbox_mail import MailSession
from outrider.gateways.sandbox_protocol import (
    AUTHORIZATION,
    Harmless,
    Headers,
    Kept,
    Outcome,
    Provider,
    Reply,
)
from outrider.gateways.sandbox_providers import (
    PROVIDERS,
    harmless_at,
    is_rehearsal,
    message_id_of,
    provider_at,
    status_callback,
)
from outrider.gateways.simulators import ses
from outrider.limits.gateways import (
    SANDBOX_BODY_MAX_BYTES,
    SANDBOX_KEPT_MESSAGES,
    SANDBOX_STOP_SECONDS,
)

__all__ = ["Faults", "Outcome", "ReceiptPlan", "Sandbox", "references_delivered"]

CREDENTIALS = frozenset(each.credential for each in PROVIDERS)
UNAUTHORISED = Reply({"error": "the authorisation is missing"}, 401)


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
        http2_port: int = 0,
        receipts: ReceiptPlan | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.emitter = None if receipts is None else ReceiptEmitter(receipts, self.faults.seed)
        self.requests = 0
        self.outcomes: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        """How often each reference was delivered; also the memory that dedupes."""
        self._requests_known: dict[str, bytes] = {}
        """What was delivered under a reference, where another request under it is refused."""
        self.kept: list[Kept] = []
        """What its lists show, oldest first."""
        self.look_ups = 0
        self._random = random.Random(self.faults.seed)
        self._log_path = log_path
        self._log: BinaryIO | None = None
        self._host, self._http_port, self._smtp_port = host, http_port, smtp_port
        self._http: web.ServerRunner | None = None
        self._smtp: asyncio.Server | None = None
        self.mail_sessions: set[MailSession] = set()
        self.http2 = Http2Server(self, host, http2_port)

    async def start(self) -> None:
        if self._log_path is not None:
            # Unbuffered: a written line has reached the operating system.
            self._log = self._log_path.open("ab", buffering=0)
        if self.emitter is not None:
            await self.emitter.start()
        self._http = web.ServerRunner(
            web.Server(self._serve_http, access_log=None), shutdown_timeout=SANDBOX_STOP_SECONDS
        )
        await self._http.setup()
        await web.TCPSite(self._http, self._host, self._http_port).start()
        self._http_port = self._http.addresses[0][1]
        loop = asyncio.get_running_loop()
        self._smtp = await loop.create_server(
            lambda: MailSession(self, loop), self._host, self._smtp_port
        )
        self._smtp_port = self._smtp.sockets[0].getsockname()[1]
        await self.http2.start()

    async def stop(self) -> None:
        await self.http2.stop()
        if self._smtp is not None:
            self._smtp.close()
            await asyncio.gather(*(session.hang_up() for session in list(self.mail_sessions)))
        if self._http is not None:
            await self._http.cleanup()
        if self.emitter is not None:
            await self.emitter.stop()
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
    def look_up_url(self) -> str:
        """For targets that declare a look-up: every message by its reference."""
        return f"{self.http_url}/sandbox/look-up"

    @property
    def smtp_url(self) -> str:
        return f"smtp://{self._host}:{self._smtp_port}"

    def change_faults(self, changes: dict[str, Any]) -> None:
        """Replace the named ones, all or nothing; naming the seed restarts the random sequence."""
        self.faults = msgspec.convert({**msgspec.to_builtins(self.faults), **changes}, Faults)
        if "seed" in changes:
            self._random = random.Random(self.faults.seed)

    def received(self) -> dict[str, object]:
        """`duplicates` counts actual harm: deliveries of a reference beyond its first."""
        delivered = self.deliveries.total()
        received: dict[str, object] = {
            "requests": self.requests,
            "delivered": delivered,
            "duplicates": delivered - len(self.deliveries),
            "outcomes": dict(self.outcomes),
        }
        if self.emitter is not None:
            received["receipts"] = self.emitter.summary()
        return received

    def decide(
        self,
        protocol: str,
        reference: str,
        to: str,
        files: Sequence[ReceivedFile] = (),
        *,
        dedupes: bool,
        request: bytes | None = None,
    ) -> Outcome:
        """Draw the outcome of a valid request and record it. No await: two requests cannot race.

        `request` is given where a provider compares it with the first under this reference."""
        faults, dice = self.faults, self._random.random()
        known = dedupes and faults.dedupe and reference in self.deliveries
        is_lost = False
        if dice < faults.throttle_rate:
            outcome = Outcome.THROTTLED
        elif dice < faults.throttle_rate + faults.drop_rate:
            outcome = Outcome.DROPPED
        elif dice < faults.throttle_rate + faults.drop_rate + faults.lose_rate:
            outcome, is_lost = Outcome.DROPPED, True
        elif known and request != self._requests_known.get(reference):
            outcome = Outcome.OTHER_REQUEST
        elif known:
            # Before failure: a provider that has the message must not say that it failed.
            outcome = Outcome.DUPLICATE_REFERENCE
        elif dice < (faults.throttle_rate + faults.drop_rate + faults.lose_rate + faults.fail_rate):
            outcome = Outcome.REJECTED
        else:
            outcome = Outcome.ACCEPTED
        delivered = outcome in (Outcome.ACCEPTED, Outcome.DROPPED) and not (known or is_lost)
        self.record(protocol, reference, to, outcome, files, delivered=delivered)
        if delivered and request is not None:
            self._requests_known[reference] = request
        return outcome

    def record(
        self,
        protocol: str,
        reference: str,
        to: str,
        outcome: Outcome,
        files: Sequence[ReceivedFile] = (),
        *,
        delivered: bool = False,
    ) -> None:
        self.requests += 1
        self.outcomes[outcome.value] += 1
        if delivered:
            self.deliveries[reference] += 1
        if self._log is not None:
            line: dict[str, object] = {
                "at": datetime.now(UTC).isoformat(),
                "protocol": protocol,
                "referenceId": reference,
                "to": to,
                "outcome": outcome.value,
                "delivered": delivered,
            }
            if files:
                line["attachments"] = [file.as_document() for file in files]
            self._log.write(msgspec.json.encode(line) + b"\n")

    async def wait(self) -> None:
        """The provider's latency, after the request is recorded and before its answer."""
        if self.faults.latency_ms:
            await asyncio.sleep(self.faults.latency_ms / 1000)

    async def _serve_http(self, request: web.BaseRequest) -> web.StreamResponse:
        provider = provider_at(request.path) if request.method == "POST" else None
        most = SANDBOX_BODY_MAX_BYTES if provider is None else provider.body_max_bytes
        if (request.content_length or 0) > most:
            return _json({"status": "rejected", "reason": "invalid_request"}, 413)
        if provider is not None:
            if most > SANDBOX_BODY_MAX_BYTES:
                # The library's own limit is a megabyte per request.
                request = request.clone(client_max_size=most)
            return await self._send(provider, request)
        shown = listed(
            request.method, request.path, dict(request.query), await request.read(),
            self._visible(),
        )  # fmt: skip
        if shown is not None:
            return await self._answer_look_up(shown, request)
        harmless = harmless_at(request.method, request.path)
        if harmless is not None:
            return await self._answer_harmless(harmless, request)
        route = _ROUTES.get((request.method, request.path))
        if route is not None:
            return await route(self, request)
        return _json({"error": "there is nothing here"}, 404)

    async def _send(self, provider: Provider, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if is_rehearsal(provider, body):
            rehearsed = Harmless("POST", "", {"name": "rehearsed"}, provider.scheme)
            return await self._answer_harmless(rehearsed, request)
        reference, to, refusal, files = provider.read(request.headers, body)
        if not _is_authorised(request, provider.scheme, provider.credential):
            refusal = UNAUTHORISED
        if refusal is not None:
            self.record(provider.protocol, reference, to, Outcome.REJECTED, files)
            await self.wait()
            return _json(*refusal)
        before = self.deliveries[reference]
        outcome = self.decide(
            provider.protocol, reference, to, files, dedupes=provider.dedupes,
            request=hashlib.sha256(body).digest() if provider.compares else None,
        )  # fmt: skip
        number = self.requests
        message_id = message_id_of(provider, provider.reply(Outcome.ACCEPTED, reference, number))
        if self.deliveries[reference] > before:
            self.keep(kept(provider.protocol, reference, message_id, to, datetime.now(UTC), body))
        if self.emitter is not None and self.deliveries[reference] > before:
            callback_url, token = status_callback(provider, request.headers, body)
            self.emitter.delivered(
                DeliveredMessage(
                    provider.protocol, reference, message_id, to, "", callback_url, token
                )
            )
        await self.wait()
        if outcome is Outcome.DROPPED:
            if request.transport is not None:
                request.transport.close()
            return web.Response()
        response = _json(*provider.reply(outcome, reference, number))
        if outcome is Outcome.THROTTLED:
            response.headers["Retry-After"] = str(math.ceil(self.faults.retry_after_seconds))
        return response

    def keep(self, message: Kept) -> None:
        self.kept.append(message)
        del self.kept[:-SANDBOX_KEPT_MESSAGES]

    def _visible(self) -> list[Kept]:
        late = timedelta(milliseconds=self.faults.look_up_delay_ms)
        now = datetime.now(UTC)
        return [each for each in self.kept if each.at + late <= now]

    async def _answer_look_up(
        self, shown: object, request: web.BaseRequest, *, is_open: bool = False
    ) -> web.StreamResponse:
        self.look_ups += 1
        await self.wait()
        if not is_open and CREDENTIALS.isdisjoint(request.headers):
            return _json(*UNAUTHORISED)
        if self._random.random() < self.faults.look_up_fail_rate:
            return _json({"error": "the simulator is configured to fail"}, 500)
        return _json(*shown) if isinstance(shown, Reply) else _json(shown)

    async def _look_up(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            shown = by_reference(await request.read(), self._visible())
        except msgspec.MsgspecError as error:
            return _json({"error": str(error)}, 400)
        return await self._answer_look_up(shown, request, is_open=True)

    async def _answer_harmless(
        self, harmless: Harmless, request: web.BaseRequest
    ) -> web.StreamResponse:
        await self.wait()
        if not _is_authorised(request, harmless.scheme, harmless.credential):
            return _json(*UNAUTHORISED)
        if harmless.document is None:
            return web.Response(status=204, headers={"Allow": "OPTIONS, POST"})
        return _json(harmless.document)

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


async def _get_certificate(_sandbox: Sandbox, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=ses.certificate(), content_type="application/x-pem-file")


Route = Callable[[Sandbox, web.BaseRequest], Awaitable[web.StreamResponse]]

_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/sandbox/faults"): Sandbox._get_faults,
    ("PUT", "/sandbox/faults"): Sandbox._put_faults,
    ("GET", "/sandbox/received"): Sandbox._get_received,
    ("POST", "/sandbox/look-up"): Sandbox._look_up,
    ("GET", ses.CERTIFICATE_PATH): _get_certificate,
}


def references_delivered(log_path: Path) -> Counter[str]:
    """How often each reference was delivered, read from the request log alone."""
    delivered: Counter[str] = Counter()
    with log_path.open("rb") as lines:
        for line in lines:
            entry = msgspec.json.decode(line)
            if entry["delivered"]:
                delivered[entry["referenceId"]] += 1
    return delivered


def _is_authorised(request: web.BaseRequest, scheme: str, credential: str) -> bool:
    if not scheme and credential == AUTHORIZATION:
        return True
    return credential in request.headers and request.headers[credential].startswith(scheme)


def _json(document: object, status: int = 200, headers: Headers | None = None) -> web.Response:
    body = b"" if document is None else msgspec.json.encode(document)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")

"""The fourth door: providers' callbacks, authenticated by their own signature.

A callback is verified, stored durably and answered; matching it to messages happens later. It needs
no API key, and nothing is trusted that was not verified. Most providers post each receipt by
itself, so `ReceiptDoor` takes posts before the framework routes and validates them, which would
cost as much as all the rest.
"""

import asyncio
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from outrider.api import bodies, envelope
from outrider.api.context import services_of
from outrider.api.errors import answer_in, problem
from outrider.api.models.receipts import Taken
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.limits.campaigns import NAME_MAX_CHARACTERS
from outrider.limits.receipts import CALLBACK_MAX_BYTES, READ_HERE_MAX_BYTES
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified

SEGMENT_SEPARATOR = ":"
PREFIX = b"/receipts/"
TEMPLATES = {
    1: "/receipts/{submission_target}",
    2: "/receipts/{workspace}/{submission_target}",
}


class ReceiptDoor:
    """Answers posts to a target's receipts URL, and leaves everything else to the routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if not raw.startswith(PREFIX) or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        # As it was sent: an encoded slash belongs to a name.
        names = [unquote(name) for name in raw[len(PREFIX) :].decode("latin-1").split("/")]
        template = TEMPLATES.get(len(names))
        target = names[-1]
        if template is None or not all(names) or len(target) > NAME_MAX_CHARACTERS:
            await self._app(scope, receive, send)
            return
        scope["state"][envelope.TEMPLATE] = template
        request = Request(scope, receive)
        try:
            workspace = DEFAULT_WORKSPACE_NAME if len(names) == 1 else workspace_of(names[0])
            response = await taken(request, workspace, target)
        except Exception as error:
            answer = answer_in(request, error)
            if answer is None:
                raise
            response = answer
        await response(scope, receive, send)


async def taken(request: Request, workspace: WorkspaceName, target: str) -> Response:
    services = services_of(request)
    outrider = services.outrider
    await services.require_registry()
    scope = await outrider.receipt_intake.inbox_of(workspace, target)
    reader = outrider.receipt_readers.reader(str(workspace), target)
    if reader is None:
        raise NotFound(
            f"no target '{target}' takes receipts here",
            hint="it is in the registry, and its receiptsSecret or the provider's own is set?",
        )
    bodies.check_length(request, CALLBACK_MAX_BYTES)
    size = bodies.announced_bytes(request, CALLBACK_MAX_BYTES)
    if size <= READ_HERE_MAX_BYTES:
        callback = await _callback(request)
        now = outrider.clock.now()
        await reader.prepare(callback, now)
        read = reader.read(callback, now)
    else:
        async with services.bodies.holding(scope, size):
            callback = await _callback(request)
            await reader.prepare(callback, outrider.clock.now())
            read = await asyncio.to_thread(reader.read, callback, outrider.clock.now())
    match read:
        case Refusal():
            return _refused(read)
        case Challenge():
            return Response(read.answer, 200, media_type="text/plain")
        case Verified():
            new = await outrider.receipt_intake.take_in(scope, target, read.receipts)
            for receipt in new:
                services.metrics.receipts.labels(target, receipt.event.value).inc()
            if read.answer:
                return Response(read.answer, 200, media_type=read.content_type)
            confirmation = Taken(taken=len(new)).model_dump_json()
            return Response(confirmation, 200, media_type="application/json")


def workspace_of(text: str) -> WorkspaceName:
    """One segment of a path: with slashes that were encoded, or with colons instead."""
    written = text
    if "/" not in text and text.count(SEGMENT_SEPARATOR) == 2:
        written = text.replace(SEGMENT_SEPARATOR, "/")
    try:
        return WorkspaceName.parse(written)
    except ValueError:
        raise NotFound(
            "there is no such workspace", hint="write TENANT:PROJECT:ENVIRONMENT"
        ) from None


async def _callback(request: Request) -> Callback:
    body = await bodies.read_bounded(request, CALLBACK_MAX_BYTES)
    query: bytes = request.scope.get("query_string", b"")
    return Callback(
        request.method,
        _public_url(request),
        dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {},
        {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in request.scope["headers"]
        },
        body,
    )


def _public_url(request: Request) -> str:
    """As the provider called it: a proxy before us may have another name than we know."""
    public = services_of(request).outrider.settings.public_url
    if public is None:
        return str(request.url)
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    path = raw.decode("latin-1").partition("?")[0]
    return f"{public.rstrip('/')}{path}{'?' if query else ''}{query.decode('latin-1')}"


def _refused(refusal: Refusal) -> Response:
    if refusal.why is RefusedFor.MALFORMED:
        return problem(400, InvalidInput.code, refusal.detail)
    return problem(
        401,
        f"RECEIPT_{refusal.why.name}",
        refusal.detail,
        headers={"WWW-Authenticate": 'Signature realm="receipts"'},
    )

"""A Bluesky server, as its documentation describes it (families/bluesky.py names the pages)."""

from collections.abc import Sequence
from typing import Any, Final

from outrider.gateways.families.bluesky import COLLECTION, record_key
from outrider.gateways.sandbox_protocol import (
    Harmless,
    Headers,
    Kept,
    Outcome,
    Provider,
    Query,
    Received,
    Reply,
    Simulator,
    decoded,
    text_of,
)
from outrider.gateways.simulators.mail import string

DID: Final = "did:plc:sandbox"


def _error(status: int, name: str, message: str) -> Reply:
    return Reply({"error": name, "message": message}, status)


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    reference, refusal = headers.get("X-Outrider-Reference", ""), None
    if text_of(document, "collection") != COLLECTION or not text_of(document, "repo"):
        refusal = _error(400, "InvalidRequest", "repo and collection are required")
    elif text_of(document, "rkey") != record_key(reference):
        refusal = _error(400, "InvalidRequest", "the key is not the reference's own")
    elif not string(document, "record", "text") or not string(document, "record", "createdAt"):
        refusal = _error(400, "InvalidRecord", "text and createdAt are required")
    return Received(reference, "", refusal)


def _uri(reference: str) -> str:
    return f"at://{DID}/{COLLECTION}/{record_key(reference)}"


def _reply(outcome: Outcome, reference: str, _number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(400, "InvalidRecord", "The simulator is configured to fail")
        case Outcome.THROTTLED:
            return _error(429, "RateLimitExceeded", "Rate Limit Exceeded")
        case _:
            return Reply({"uri": _uri(reference), "cid": "bafyreisandbox"})


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["uri"])


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if (method, path) != ("GET", "/xrpc/com.atproto.repo.getRecord"):
        return None
    same = [each.message_id for each in newest if each.message_id.endswith(query.get("rkey", "?"))]
    if same:
        return {"uri": same[0], "cid": "bafyreisandbox", "value": {}}
    return Reply({"error": "RecordNotFound", "message": "Could not locate record"}, 400)


SIMULATOR = Simulator(
    Provider("bluesky", "/xrpc/com.atproto.repo.putRecord", True, _read, _reply, "Bearer"),
    _message_id,
    harmless=(
        Harmless(
            "POST",
            "/xrpc/com.atproto.server.createSession",
            {"accessJwt": "sandbox", "refreshJwt": "sandbox", "did": DID, "handle": "sandbox"},
        ),
        Harmless("GET", "/xrpc/com.atproto.server.getSession", {"did": DID}, "Bearer"),
    ),
    listed=_listed,
)

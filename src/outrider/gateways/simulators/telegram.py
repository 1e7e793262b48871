"""Telegram's Bot API, as its documentation describes it (families/telegram.py names the pages)."""

from typing import Any

from outrider.gateways.sandbox_protocol import (
    Harmless,
    Headers,
    Outcome,
    Provider,
    Received,
    Reply,
    Simulator,
    decoded,
    text_of,
)


def _error(status: int, description: str) -> Reply:
    return Reply({"ok": False, "error_code": status, "description": description}, status)


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    refusal = None
    if not text_of(document, "chat_id"):
        refusal = _error(400, "Bad Request: chat not found")
    elif not text_of(document, "text"):
        refusal = _error(400, "Bad Request: message text is empty")
    return Received(headers.get("X-Outrider-Reference", ""), text_of(document, "chat_id"), refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(400, "Bad Request: message is too long")
        case Outcome.THROTTLED:
            return _error(429, "Too Many Requests: retry later")
        case _:
            return Reply({"ok": True, "result": {"message_id": number}})


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["result"]["message_id"])


SIMULATOR = Simulator(
    # The token is in the path: without one, there is no such page.
    Provider("telegram", "/bot[^/]+/sendMessage", False, _read, _reply),
    _message_id,
    harmless=(Harmless("GET", "/bot[^/]+/getMe", {"ok": True, "result": {"id": 1}}),),
)

"""Slack's Web API, as its documentation describes it (families/slack.py names the pages)."""

from collections.abc import Sequence
from typing import Any

from outrider.gateways.families.slack import EVENT_TYPE
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


def _error(name: str, status: int = 200) -> Reply:
    return Reply({"ok": False, "error": name}, status)


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    refusal = None
    if not text_of(document, "channel"):
        refusal = _error("channel_not_found")
    elif not text_of(document, "text"):
        refusal = _error("no_text")
    reference = string(document, "metadata", "event_payload", "reference")
    return Received(reference, text_of(document, "channel"), refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("msg_too_long")
        case Outcome.THROTTLED:
            return _error("ratelimited", 429)
        case _:
            return Reply({"ok": True, "channel": "C1", "ts": f"1700000000.{number:06d}"})


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["ts"])


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if (method, path) != ("GET", "/api/conversations.history"):
        return None
    oldest, latest = float(query.get("oldest", 0)), float(query.get("latest", "inf"))
    same = [
        each for each in newest
        if each.to == query.get("channel") and oldest <= each.at.timestamp() <= latest
    ]  # fmt: skip
    start, most = int(query.get("cursor") or 0), int(query.get("limit", "100"))
    more = str(start + most) if len(same) > start + most else ""
    return {
        "ok": True,
        "messages": [
            {"type": "message", "ts": each.message_id, "metadata": {
                "event_type": EVENT_TYPE, "event_payload": {"reference": each.reference}}}
            for each in same[start : start + most]
        ],
        "response_metadata": {"next_cursor": more},
    }  # fmt: skip


SIMULATOR = Simulator(
    Provider("slack", "/api/chat.postMessage", False, _read, _reply, "Bearer"),
    _message_id,
    harmless=(Harmless("POST", "/api/auth.test", {"ok": True}, "Bearer"),),
    listed=_listed,
)

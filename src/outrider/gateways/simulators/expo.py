"""Expo's push service, as its documentation describes it (families/expo.py names the pages)."""

from typing import Any, Final

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

BASE: Final = "/--/api/v2/push"


def _ticket(error: str, message: str) -> Reply:
    details = {"error": error}
    return Reply({"data": {"status": "error", "message": message, "details": details}})


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = text_of(document, "to"), None
    if not to.startswith("Expo"):
        errors = [{"code": "VALIDATION_ERROR", "message": '"to" must be a push token'}]
        refusal = Reply({"errors": errors}, 400)
    elif "[unregistered" in to:
        refusal = _ticket("DeviceNotRegistered", "The device cannot receive push notifications.")
    return Received(headers.get("X-Outrider-Reference", ""), to, refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _ticket("MessageTooBig", "The simulator is configured to fail.")
        case Outcome.THROTTLED:
            errors = [{"code": "TOO_MANY_REQUESTS", "message": "Too many requests."}]
            return Reply({"errors": errors}, 429)
        case _:
            return Reply({"data": {"status": "ok", "id": f"sandbox-{number}"}})


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["data"]["id"])


SIMULATOR = Simulator(
    Provider("expo", f"{BASE}/send", False, _read, _reply, "Bearer"),
    _message_id,
    harmless=(Harmless("POST", f"{BASE}/getReceipts", {"data": {}}, "Bearer"),),
)

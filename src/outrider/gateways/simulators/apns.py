"""Apple's push service, as its documentation describes it (families/apns.py names the pages). It is
served by `sandbox_http2`, not with the others: it speaks HTTP/2 only."""

import re
from typing import Final

from outrider.gateways.sandbox_protocol import Headers, Outcome, Received, Reply, decoded

PROTOCOL: Final = "apns"
NOBODY: Final = "0" * 64
UNREGISTERED: Final = "dead"
"""How the tokens of devices begin that no longer have the app."""
PAYLOAD_MAX_BYTES: Final = 4_096
_PATH = re.compile(r"/3/device/([^/]+)")
_TOKEN = re.compile(r"[0-9a-f]{8,200}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_check(headers: Headers) -> bool:
    return _device(headers) == NOBODY


def checked(headers: Headers) -> Reply:
    return _about_us(headers) or _error(400, "BadDeviceToken")


def read(headers: Headers, body: bytes) -> Received:
    device = _device(headers)
    refusal = _about_us(headers) or _about_the_message(headers, body, device)
    return Received(headers.get("x-outrider-reference", ""), device, refusal)


def reply(outcome: Outcome, headers: Headers) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(410, "Unregistered")
        case Outcome.THROTTLED:
            return _error(503, "ServiceUnavailable")
        case _:
            return Reply(None, 200, {"apns-id": message_id(headers)})


def message_id(headers: Headers) -> str:
    return headers.get("apns-id", "")


def _error(status: int, reason: str) -> Reply:
    return Reply({"reason": reason}, status)


def _device(headers: Headers) -> str:
    found = _PATH.fullmatch(headers.get(":path", ""))
    return "" if found is None else found[1]


def _about_us(headers: Headers) -> Reply | None:
    if not headers.get("authorization", "").startswith("bearer "):
        return _error(403, "MissingProviderToken")
    if not headers.get("apns-topic"):
        return _error(400, "MissingTopic")
    return None


def _about_the_message(headers: Headers, body: bytes, device: str) -> Reply | None:
    if _ID.fullmatch(message_id(headers)) is None:
        return _error(400, "BadMessageId")
    if len(headers.get("apns-collapse-id", "").encode()) > 64:
        return _error(400, "BadCollapseId")
    if len(body) > PAYLOAD_MAX_BYTES:
        return _error(413, "PayloadTooLarge")
    if "aps" not in decoded(body):
        return _error(400, "PayloadEmpty")
    if device.startswith(UNREGISTERED):
        return _error(410, "Unregistered")
    return None if _TOKEN.fullmatch(device) else _error(400, "BadDeviceToken")

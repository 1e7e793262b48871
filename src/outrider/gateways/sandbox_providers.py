"""The HTTP protocols that the simulator speaks: a request is read, an outcome becomes an answer.

Each provider is a row of `PROVIDERS`: where it listens, how it reads a request, and how it words
each outcome. Faults, the log and counting are the simulator's; nothing here misbehaves.
"""

import base64
import hashlib
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs

from outrider.domain.call_results import DUPLICATE_REFERENCE
from outrider.gateways.sandbox_files import files_of_resend
from outrider.gateways.sandbox_protocol import (
    Harmless,
    Headers,
    Outcome,
    Provider,
    Received,
    Reply,
    decoded,
    text_of,
)
from outrider.gateways.simulators import SIMULATORS
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

_PHONE = re.compile(r"\+[0-9]+\Z")
_INVALID_NUMBER: Final = "+15005550001"
"""Twilio's own test number for an invalid recipient; the others reuse it here."""


def harmless_at(method: str, path: str) -> Harmless | None:
    return next(
        (each for each in HARMLESS if each.method == method and re.fullmatch(each.path, path)), None
    )


def is_rehearsal(provider: Provider, body: bytes) -> bool:
    """FCM's flag for a message to be validated and not delivered."""
    return provider.protocol == "fcm" and decoded(body).get("validate_only") is True


def message_id_of(provider: Provider, reply: Reply) -> str:
    """The message's id in the provider's answer."""
    if provider.protocol in SIMULATORS:
        return SIMULATORS[provider.protocol].message_id(reply)
    document = reply.document
    if not isinstance(document, dict):
        return ""
    messages = document.get("messages")
    if isinstance(messages, list) and messages:
        document = messages[0]
    found = (document.get(name) for name in ("gatewayMessageId", "sid", "id", "name"))
    return str(next(filter(None, found), ""))


def status_callback(
    provider: Provider, headers: Headers, body: bytes
) -> tuple[str | None, str | None]:
    """Twilio only: where this message is reported, and the token Twilio signs with, which is the
    caller's credential."""
    if not provider.protocol.startswith("twilio"):
        return None, None
    form = parse_qs(body.decode("latin-1"))
    scheme, _, encoded = headers.get("Authorization", "").partition(" ")
    token = None
    if scheme == "Basic":
        with suppress(ValueError):
            token = base64.b64decode(encoded).decode().partition(":")[2] or None
    return form.get("StatusCallback", [None])[0], token


def provider_at(path: str) -> Provider | None:
    return next((provider for provider in PROVIDERS if re.fullmatch(provider.path, path)), None)


# sms and push: the reference is part of the document, and a repeat is answered as one.


def _read_sms(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    reference, to = text_of(document, "referenceId"), text_of(document, "to")
    reason = None
    if not reference:
        reason = "invalid_request"
    elif not _PHONE.match(to):
        reason = "invalid_recipient"
    elif not text_of(document, "message"):
        reason = "invalid_message"
    return Received(reference, to, _refused(reference, reason) if reason else None)


def _read_push(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    reference, token = text_of(document, "referenceId"), text_of(document, "token")
    reason = None
    if not reference or not token:
        reason = "invalid_request"
    elif token.startswith("unregistered"):
        reason = "unregistered_token"
    return Received(reference, token, _refused(reference, reason) if reason else None)


def _refused(reference: str, reason: str) -> Reply:
    return Reply({"status": "rejected", "reason": reason, "referenceId": reference}, 400)


def _reply_json(outcome: Outcome, reference: str, number: int) -> Reply:
    answer = {"referenceId": reference}
    match outcome:
        case Outcome.REJECTED:
            return Reply(answer | {"status": "rejected", "reason": "provider_failure"})
        case Outcome.DUPLICATE_REFERENCE:
            return Reply(answer | {"status": "rejected", "reason": DUPLICATE_REFERENCE})
        case Outcome.THROTTLED:
            return Reply(answer | {"error": "too many requests"}, 429)
        case _:
            return Reply(answer | {"status": "accepted", "gatewayMessageId": f"sandbox-{number}"})


# Resend: an Idempotency-Key, under which the same request gets the first answer, and no other.


def _read_resend(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    reference = headers.get("Idempotency-Key", "")
    recipients = document.get("to")
    to = recipients[0] if isinstance(recipients, list) and recipients else recipients
    to = to if isinstance(to, str) else ""
    refusal = None
    if "@" not in to or to.startswith("reject"):
        refusal = _resend_error(422, "validation_error", "Invalid `to` field.")
    elif not text_of(document, "from") or not ("html" in document or "text" in document):
        refusal = _resend_error(422, "missing_required_field", "A field is missing.")
    files = files_of_resend(document)
    if files is None:
        refusal = refusal or _resend_error(422, "invalid_attachment", "An attachment is wrong.")
    return Received(reference, to, refusal, files or ())


def _reply_resend(outcome: Outcome, reference: str, _number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _resend_error(422, "validation_error", "The simulator is configured to fail.")
        case Outcome.THROTTLED:
            return _resend_error(429, "rate_limit_exceeded", "Too many requests.")
        case Outcome.OTHER_REQUEST:
            message = "The idempotency key was used with another request body."
            return _resend_error(409, "invalid_idempotent_request", message)
        case _:
            return Reply({"id": str(uuid.uuid5(uuid.NAMESPACE_URL, reference))})


def _resend_error(status: int, name: str, message: str) -> Reply:
    return Reply({"statusCode": status, "name": name, "message": message}, status)


# Twilio: forms, a numeric error code, and no way to send something only once.


def _read_twilio(content: str) -> Callable[[Headers, bytes], Received]:
    def read(headers: Headers, body: bytes) -> Received:
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        to, refusal = form.get("To", ""), None
        if not _PHONE.match(to) or to == _INVALID_NUMBER:
            refusal = _twilio_error(400, 21211, "The 'To' number is not a valid phone number.")
        elif not form.get("From") and not form.get("MessagingServiceSid"):
            refusal = _twilio_error(400, 21603, "A 'From' phone number is required.")
        elif not form.get(content):
            refusal = _twilio_error(400, 21602, "The message's content is required.")
        return Received(headers.get("X-Outrider-Reference", ""), to, refusal)

    return read


def _reply_twilio(prefix: str, failure: int) -> Callable[[Outcome, str, int], Reply]:
    def reply(outcome: Outcome, _reference: str, number: int) -> Reply:
        match outcome:
            case Outcome.REJECTED:
                return _twilio_error(400, failure, "The simulator is configured to fail.")
            case Outcome.THROTTLED:
                return _twilio_error(429, 20429, "Too many requests.")
            case _:
                return Reply({"sid": f"{prefix}{number:032x}", "status": "queued"}, 201)

    return reply


def _twilio_error(status: int, code: int, message: str) -> Reply:
    return Reply({"status": status, "code": code, "message": message}, status)


# WhatsApp Cloud: the reference is an annotation that is returned in receipts and dedupes nothing.


def _read_whatsapp(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    reference, to = text_of(document, "biz_opaque_callback_data"), text_of(document, "to")
    refusal = None
    if text_of(document, "messaging_product") != "whatsapp" or not document.get(
        text_of(document, "type")
    ):
        refusal = _graph_error(400, 100, "Invalid parameter.")
    elif not _PHONE.match(to) or to == _INVALID_NUMBER:
        refusal = _graph_error(400, 131026, "Message undeliverable.")
    return Received(reference, to, refusal)


def _reply_whatsapp(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _graph_error(400, 131026, "The simulator is configured to fail.")
        case Outcome.THROTTLED:
            return _graph_error(429, 130429, "Rate limit hit.")
        case _:
            message = {"id": f"wamid.sandbox-{number}"}
            return Reply({"messaging_product": "whatsapp", "messages": [message]})


def _graph_error(status: int, code: int, message: str) -> Reply:
    error = {"message": f"(#{code}) {message}", "type": "OAuthException", "code": code}
    return Reply({"error": error}, status)


# FCM: Google's error envelope with FCM's own code among the details.


def _read_fcm(headers: Headers, body: bytes) -> Received:
    message = decoded(body).get("message")
    token = text_of(message, "token") if isinstance(message, dict) else ""
    refusal = None
    if not token:
        refusal = _fcm_error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "Invalid message.")
    elif token.startswith("unregistered"):
        refusal = _fcm_error(404, "NOT_FOUND", "UNREGISTERED", "Requested entity was not found.")
    return Received(headers.get("X-Outrider-Reference", ""), token, refusal)


def _reply_fcm(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            text = "The simulator is configured to fail."
            return _fcm_error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", text)
        case Outcome.THROTTLED:
            return _fcm_error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "Too many messages.")
        case _:
            return Reply({"name": f"projects/sandbox/messages/{number}"})


def _fcm_error(status: int, name: str, code: str, message: str) -> Reply:
    detail = {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
    error = {"code": status, "message": message, "status": name, "details": [detail]}
    return Reply({"error": error}, status)


# Mastodon: an Idempotency-Key too, and errors that are sentences.


def _read_mastodon(headers: Headers, body: bytes) -> Received:
    form = parse_qs(body.decode("latin-1"))
    refusal = None
    if not "".join(form.get("status", [])).strip():
        refusal = Reply({"error": "Validation failed: Text can't be blank"}, 422)
    return Received(headers.get("Idempotency-Key", ""), "", refusal)


def _reply_mastodon(outcome: Outcome, reference: str, _number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return Reply({"error": "Validation failed: The simulator is configured to fail"}, 422)
        case Outcome.THROTTLED:
            return Reply({"error": "Too many requests"}, 429)
        case _:
            digest = hashlib.sha256(reference.encode()).hexdigest()
            return Reply({"id": str(int(digest[:15], 16)), "visibility": "public"})


PROVIDERS: Final = (
    Provider("sms", "/sms/send", True, _read_sms, _reply_json),
    Provider("push", "/push/send", True, _read_push, _reply_json),
    Provider(
        "resend",
        "/emails",
        True,
        _read_resend,
        _reply_resend,
        "Bearer",
        SANDBOX_MAIL_MAX_BYTES,
        compares=True,
    ),
    Provider(
        "twilio_sms",
        "/2010-04-01/Accounts/[^/]+/Messages.json",
        False,
        _read_twilio("Body"),
        _reply_twilio("SM", 21612),
        "Basic",
    ),
    Provider(
        "twilio_voice",
        "/2010-04-01/Accounts/[^/]+/Calls.json",
        False,
        _read_twilio("Twiml"),
        _reply_twilio("CA", 21214),
        "Basic",
    ),
    Provider(
        "whatsapp_cloud",
        r"/v[0-9]+\.[0-9]+/[^/]+/messages",
        False,
        _read_whatsapp,
        _reply_whatsapp,
        "Bearer",
    ),
    Provider(
        "fcm",
        "/v1/projects/[^/]+/messages:send",
        False,
        _read_fcm,
        _reply_fcm,
        "Bearer",
    ),
    Provider("mastodon", "/api/v1/statuses", True, _read_mastodon, _reply_mastodon, "Bearer"),
    *(each.provider for each in SIMULATORS.values()),
)


HARMLESS: Final = (
    Harmless("OPTIONS", "/(sms|push)/send"),
    # Google's exchange of a service account for an access token.
    Harmless("POST", "/token", {"access_token": "sandbox", "expires_in": 3_599}),
    Harmless("GET", "/domains", {"object": "list", "data": []}, "Bearer"),
    Harmless("GET", "/2010-04-01/Accounts/[^/]+/Messages.json", {"messages": []}, "Basic"),
    Harmless("GET", "/2010-04-01/Accounts/[^/]+/Calls.json", {"calls": []}, "Basic"),
    Harmless("GET", r"/v[0-9]+\.[0-9]+/[^/]+", {"id": "sandbox"}, "Bearer"),
    Harmless("GET", "/api/v1/accounts/verify_credentials", {"id": "1"}, "Bearer"),
    *(each for simulator in SIMULATORS.values() for each in simulator.harmless),
)

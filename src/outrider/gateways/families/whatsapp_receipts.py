"""Receipts of `whatsapp_cloud`: batches of statuses and messages, signed with the app secret.

Our reference comes back as `biz_opaque_callback_data`. Statuses come in any order and more than
once; "delivered" is left out where a message was read at once. There is no timestamp in the
signature; a replay is harmless, because it has the ids of the first.

Sources: https://developers.facebook.com/docs/graph-api/webhooks/getting-started (handshake and
signature), https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/status,
…/reference/user_preferences,
https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes.
"""

import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_unix,
    kept_text,
    one_line,
    plain_keys,
)
from outrider.limits.gateways import RECEIPT_ID_MAX_CHARACTERS, RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified

CREDENTIAL: Final = "appSecret"
VERIFY_CREDENTIAL: Final = "verifyToken"
SIGNATURE_HEADER: Final = "x-hub-signature-256"
SIGNATURE_PREFIX: Final = "sha256="

BOUNCES: Final[Mapping[int, bool]] = {
    131021: True,  # the recipient is the sender
    131026: False,  # undeliverable: not on WhatsApp, or terms not accepted, or an old app
    131030: False,  # a test number may write to those in its list only
}
"""Errors that are about the recipient, and whether retrying is pointless."""
OPTED_OUT: Final = 131050
"""This recipient has stopped marketing messages from this business."""

_WRONG_TOKEN = Refusal(RefusedFor.FORGED, "hub.verify_token is not this target's verifyToken")
_NO_TOKEN = Refusal(RefusedFor.UNSIGNED, "a subscription needs hub.mode and hub.verify_token")


class _Error(msgspec.Struct):
    code: int = 0
    title: str = ""
    message: str = ""
    error_data: dict[str, Any] | None = None


class _Status(msgspec.Struct):
    id: str
    status: str
    timestamp: str | int = ""
    recipient_id: str = ""
    biz_opaque_callback_data: str | None = None
    errors: list[_Error] = []


class _Context(msgspec.Struct):
    id: str | None = None


class _Text(msgspec.Struct):
    body: str = ""


class _Button(msgspec.Struct):
    text: str = ""


class _Choice(msgspec.Struct):
    title: str = ""


class _Interactive(msgspec.Struct):
    button_reply: _Choice | None = None
    list_reply: _Choice | None = None


class _Message(msgspec.Struct):
    id: str
    sender: str = msgspec.field(name="from")
    type: str = ""
    timestamp: str | int = ""
    context: _Context | None = None
    text: _Text | None = None
    button: _Button | None = None
    interactive: _Interactive | None = None


class _Preference(msgspec.Struct):
    wa_id: str
    category: str = ""
    value: str = ""
    detail: str = ""
    timestamp: str | int = ""


class _Value(msgspec.Struct):
    statuses: list[_Status] = []
    messages: list[_Message] = []
    user_preferences: list[_Preference] = []


class _Change(msgspec.Struct):
    field: str
    value: msgspec.Raw


class _Entry(msgspec.Struct):
    changes: list[_Change] = []


class _Notification(msgspec.Struct):
    entry: list[_Entry]


_decoder = msgspec.json.Decoder(_Notification)
_value_decoder = msgspec.json.Decoder(_Value)
_OUR_FIELDS = frozenset({"messages", "user_preferences"})


def signature(key: bytes, body: bytes) -> str:
    return SIGNATURE_PREFIX + hmac.digest(key, body, "sha256").hex()


class WhatsAppReader(SignedReader):
    def __init__(self, secret: ReceiptSecret, verify_token: ReceiptSecret | None) -> None:
        super().__init__(secret)
        self._verify_token = verify_token

    def read(self, callback: Callback, now: datetime) -> Verified | Challenge | Refusal:
        if callback.method == "GET":
            return self._subscribed(callback.query)
        return super().read(callback, now)

    def _subscribed(self, query: Mapping[str, str]) -> Challenge | Refusal:
        """When the URL is entered, Meta asks once whether it is ours."""
        given = query.get("hub.verify_token", "")
        if self._verify_token is None or query.get("hub.mode") != "subscribe" or not given:
            return _NO_TOKEN
        text = given.encode(errors="replace")

        def state(keys: Sequence[bytes]) -> SignatureState:
            matches = [hmac.compare_digest(key, text) for key in keys]
            return SignatureState.GENUINE if any(matches) else SignatureState.FORGED

        if self._verify_token.judge(state) is not SignatureState.GENUINE:
            return _WRONG_TOKEN
        return Challenge(one_line(query.get("hub.challenge", "")))

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:  # noqa: ARG002 - nothing says when it was sent
        given = callback.headers.get(SIGNATURE_HEADER, "")
        if not given:
            return SignatureState.UNSIGNED
        text = given.encode(errors="replace")
        matches = [
            hmac.compare_digest(signature(key, callback.body).encode(), text) for key in keys
        ]
        return SignatureState.GENUINE if any(matches) else SignatureState.FORGED

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        for entry in _decoder.decode(callback.body).entry:
            for change in entry.changes:
                if change.field in _OUR_FIELDS:
                    yield from _of_value(_value_decoder.decode(change.value))


def _of_value(value: _Value) -> Iterator[Receipt]:
    for status in value.statuses:
        yield from _of_status(status)
    for message in value.messages:
        if message.type not in ("reaction", "system", "unsupported"):
            yield _of_reply(message)
    for preference in value.user_preferences:
        yield from _of_preference(preference)


def _of_status(status: _Status) -> Iterator[Receipt]:
    event, permanent, reason = _status_event(status)
    if event is None:
        return
    reference = status.biz_opaque_callback_data
    opted_out = event is ReceiptEvent.OPTED_OUT and status.recipient_id
    yield Receipt(
        derived_id(status.id, status.status),
        event,
        one_line(reference, RECEIPT_ID_MAX_CHARACTERS) or None if reference else None,
        one_line(status.id, RECEIPT_ID_MAX_CHARACTERS),
        permanent,
        reason,
        _phone(status.recipient_id) if opted_out else None,
        occurred_at=from_unix(status.timestamp),
    )


def _status_event(status: _Status) -> tuple[ReceiptEvent | None, bool, str]:
    """Sent and other intermediate states are not reported; played means read."""
    match status.status:
        case "delivered":
            return ReceiptEvent.DELIVERED, False, ""
        case "read" | "played":
            return ReceiptEvent.READ, False, ""
        case "failed":
            error = status.errors[0] if status.errors else _Error()
            details = str((error.error_data or {}).get("details", ""))
            words = (str(error.code or ""), error.title or error.message, details)
            reason = one_line(" ".join(filter(None, words)))
            if error.code == OPTED_OUT:
                return ReceiptEvent.OPTED_OUT, True, reason
            if error.code in BOUNCES:
                return ReceiptEvent.BOUNCED, BOUNCES[error.code], reason
            return ReceiptEvent.FAILED, False, reason
        case _:
            return None, False, ""


def _of_reply(message: _Message) -> Receipt:
    """It refers to a message of ours, if Meta says so."""
    interactive = message.interactive or _Interactive()
    choice = interactive.button_reply or interactive.list_reply or _Choice()
    text = (message.text or _Text()).body or (message.button or _Button()).text or choice.title
    answered = message.context.id if message.context is not None else None
    return Receipt(
        derived_id(message.id, "received"),
        ReceiptEvent.REPLIED,
        provider_message_id=one_line(answered, RECEIPT_ID_MAX_CHARACTERS) if answered else None,
        sender=_phone(message.sender),
        text=kept_text(text, RECEIPT_TEXT_MAX_CHARACTERS),
        occurred_at=from_unix(message.timestamp),
    )


def _of_preference(preference: _Preference) -> Iterator[Receipt]:
    events = {"stop": ReceiptEvent.OPTED_OUT, "resume": ReceiptEvent.OPTED_IN}
    event = events.get(preference.value)
    if event is None:
        return
    yield Receipt(
        derived_id(preference.wa_id, preference.value, str(preference.timestamp)),
        event,
        reason=one_line(preference.detail or preference.category),
        sender=_phone(preference.wa_id),
        occurred_at=from_unix(preference.timestamp),
    )


def _phone(wa_id: str) -> str:
    """WhatsApp ids of people are phone numbers without the plus."""
    digits = one_line(wa_id)
    return digits if digits.startswith("+") else f"+{digits}"


def receipt_reader(target: Target) -> WhatsAppReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    token = None
    if target.has_credential(VERIFY_CREDENTIAL):
        token = ReceiptSecret(target, VERIFY_CREDENTIAL, plain_keys)
    return WhatsAppReader(ReceiptSecret(target, CREDENTIAL, plain_keys), token)

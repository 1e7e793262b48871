"""The `web_push` gateway type: notifications to browsers, encrypted for each and signed (VAPID).

A recipient's push token is the browser's subscription as JSON, and a reservation becomes one POST
to its endpoint: at `gatewayUrl`, or at a push service that the target allows, because endpoints
come from browsers and could name any host. There is no key, no look-up and no receipt; a repeat
replaces the first while the push service still holds it (`Topic`), and where the page shows it
under its `tag`.

Sources: https://www.rfc-editor.org/rfc/rfc8030 (requests, answers, TTL, Urgency, Topic),
https://www.rfc-editor.org/rfc/rfc8291 (encryption), https://www.rfc-editor.org/rfc/rfc8292 (VAPID).
"""

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cachetools import TTLCache
from yarl import URL

from outrider.domain.addresses import normalise_push_token
from outrider.domain.call_results import AttemptError, Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.push_options import collapse_id, object_of, topic, ttl_seconds
from outrider.gateways.families.vapid_keys import (
    authorization,
    decoded_key,
    signing_key,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import reached, unanswered
from outrider.gateways.look_ups import fingerprint
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
)
from outrider.ports.target_check import CheckFinding

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

TTL_DEFAULT_SECONDS: Final = 86_400
TTL_MAX_SECONDS: Final = 28 * 86_400
PAYLOAD_MAX_BYTES: Final = 3_993
"""What fits into the 4,096 bytes that push services take, once it is encrypted (RFC 8291, 4)."""
PUBLIC_KEY_BYTES: Final = 65
AUTH_BYTES: Final = 16
URGENCIES: Final = frozenset({"very-low", "low", "normal", "high"})
SERVICES: Final = (
    "fcm.googleapis.com, updates.push.services.mozilla.com, web.push.apple.com, notify.windows.com"
)
"""Of Chrome, Firefox, Safari and Edge; a domain includes what is below it."""

WEB_PUSH = GatewayType(
    "web_push",
    Channel.PUSH,
    frozenset(
        {
            "invalid_request",
            "invalid_recipient",
            "invalid_message",
            "unauthorized",
            "unregistered_token",
        }
    ),
    evidence=Evidence(collapses="`Topic`, notification tag"),
)
OURS: Final[Reasons] = {"401": "unauthorized", "403": "unauthorized"}
REASONS: Final[Reasons] = {
    "400": "invalid_request",
    "404": "unregistered_token",
    "410": "unregistered_token",
    "413": "invalid_message",
}
CREATED: Final = 201
SERVICES_MAX: Final = 64
SIGNED_SECONDS: Final = 3_600.0


class _Keys(msgspec.Struct):
    p256dh: str
    auth: str


class Subscription(msgspec.Struct):
    """What `PushSubscription.toJSON()` gives in a browser."""

    endpoint: str
    keys: _Keys


_subscription = msgspec.json.Decoder(Subscription)


class WebPushGateway(ProviderGateway):
    type = WEB_PUSH
    options = frozenset({"subject", "ttlSeconds", "urgency", "pushServices"})
    documents = frozenset({"privateKey"})
    source = "https://www.rfc-editor.org/rfc/rfc8030#section-5"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "privateKey")
        self._own = base_url(target.url)
        self._subject = target.option("subject")
        self._urgency = target.option("urgency", "normal")
        given = target.option("ttlSeconds", str(TTL_DEFAULT_SECONDS))
        self._ttl_seconds = ttl_seconds(given, TTL_MAX_SECONDS)
        services = target.option("pushServices", SERVICES).split(",")
        self._services = tuple(each.strip().lower() for each in services if each.strip())
        if self._urgency not in URGENCIES:
            raise InvalidInput(f"urgency of '{target.name}' is not one of {sorted(URGENCIES)}")
        if not self._subject.startswith(("mailto:", "https:")):
            raise InvalidInput(f"subject of '{target.name}' is neither mailto: nor https:")
        # By key and push service: signing costs as much as everything else together.
        self._signed: TTLCache[str, str] = TTLCache(SERVICES_MAX, SIGNED_SECONDS)
        self._signing_key()

    def _signing_key(self) -> "ec.EllipticCurvePrivateKey":
        return signing_key(self.credential("privateKey"))

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        subscription = self._subscribed(content.to)
        if isinstance(subscription, str):
            return Rejected("invalid_recipient", subscription)
        endpoint, public, auth = subscription
        try:
            payload = self._payload(reference, content)
            ttl = ttl_seconds(content.payload.get("ttlSeconds", self._ttl_seconds), TTL_MAX_SECONDS)
        except InvalidInput as error:
            return Rejected("invalid_message", error.message)
        if len(payload) > PAYLOAD_MAX_BYTES:
            return Rejected("invalid_message", f"more than {PAYLOAD_MAX_BYTES} bytes")
        body = encrypted(payload, public, auth)
        if body is None:
            return Rejected("invalid_recipient", "the subscription's key is not a point of P-256")
        headers = {
            REFERENCE_HEADER: reference,
            "Content-Encoding": "aes128gcm",
            "TTL": str(ttl or 0),
            "Urgency": self._urgency,
            "Topic": topic(reference),
            "Authorization": self._authorization(str(endpoint.origin())),
        }
        return Request(endpoint, body, "application/octet-stream", headers)

    def _authorization(self, audience: str) -> str:
        key = fingerprint(self.credential("privateKey"), audience)
        found = self._signed.get(key)
        if found is None:
            found = authorization(self._signing_key(), audience, self._subject, time.time())
            self._signed[key] = found
        return found

    def secret_values(self) -> Iterable[str]:
        """A signed token is as good as the key, for its twelve hours."""
        tokens = (each.partition("t=")[2].partition(",")[0] for each in self._signed.values())
        return [*super().secret_values(), *tokens]

    def _subscribed(self, token: str) -> tuple[URL, bytes, bytes] | str:
        """Endpoint, public key and authentication secret; or what is wrong."""
        text = normalise_push_token(token)
        try:
            found = _subscription.decode(text or "")
            url = URL(found.endpoint)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return "not a push subscription: the JSON that a browser gives, without spaces"
        public, auth = decoded_key(found.keys.p256dh), decoded_key(found.keys.auth)
        if len(public) != PUBLIC_KEY_BYTES or len(auth) != AUTH_BYTES:
            return "the subscription's keys have the wrong length"
        endpoint = self._endpoint(url)
        return "its push service is not allowed here" if endpoint is None else (
            endpoint, public, auth,
        )  # fmt: skip

    def _endpoint(self, url: URL) -> URL | None:
        """One without a host is of the gateway's own push service."""
        if not url.scheme and url.host is None:
            return self._own.join(url)
        if url.scheme not in ("http", "https") or url.host is None:
            return None
        if url.origin() == self._own.origin():
            return url
        host = (url.host or "").lower()
        known = any(host == each or host.endswith(f".{each}") for each in self._services)
        return url if known and url.scheme == "https" else None

    def _payload(self, reference: str, content: Content) -> bytes:
        """Declarative Web Push's form, which service workers read just as well."""
        notification: dict[str, Any] = {
            "title": content.subject or "",
            "body": content.body,
            "tag": collapse_id(reference),
            **object_of(content.payload, "notification"),
        }
        if "data" in content.payload:
            notification["data"] = object_of(content.payload, "data")
        return msgspec.json.encode({"web_push": 8030, "notification": notification})

    def read(self, body: bytes) -> ProviderReply:  # noqa: ARG002 - the status says it all
        return ProviderReply()

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        """A push service answers by status alone; a page in HTML is somebody else's."""
        if answer.status == CREATED:
            return ProviderReply(answer.location or "created")
        if 200 <= answer.status < 300 or answer.body.lstrip().startswith((b"<", b'"<')):
            return ProviderReply()
        words = " ".join(answer.body[:2_000].decode("utf-8", "replace").split())
        return ProviderReply(None, str(answer.status), words or f"HTTP {answer.status}")

    async def check(self, seconds: float) -> CheckFinding | None:
        # No push service has a call that is not a message, so plain HTTP is used.
        answer = await self._client.ask("OPTIONS", self._own, timeout_seconds=seconds)
        if isinstance(answer, AttemptError):
            return unanswered(self._own, answer)
        return reached(self._own, answer)


def encrypted(payload: bytes, public: bytes, auth: bytes) -> bytes | None:
    """None: it is not a key. For one recipient and one message, with a key and salt of its own."""
    import http_ece  # type: ignore[import-untyped]
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        result: bytes = http_ece.encrypt(
            payload,
            salt=os.urandom(16),
            private_key=ec.generate_private_key(ec.SECP256R1()),
            dh=public,
            auth_secret=auth,
            version="aes128gcm",
        )
    except (ValueError, http_ece.ECEException):
        return None
    return result


FAMILY = Family(WEB_PUSH, WebPushGateway)

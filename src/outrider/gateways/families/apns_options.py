"""How a notification is shown and kept: Apple's headers and payload, from a target's options and
from what a message says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from outrider.domain.errors import InvalidInput
from outrider.gateways.content import Content
from outrider.gateways.families.push_options import (
    COLLAPSE_ID_MAX_BYTES,
    merged,
    object_of,
    ttl_seconds,
)
from outrider.gateways.family import Target

# https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
PUSH_TYPES: Final = frozenset(
    {
        "alert", "background", "complication", "controls", "fileprovider", "liveactivity",
        "location", "mdm", "pushtotalk", "voip", "widgets",
    }
)  # fmt: skip
PRIORITIES: Final = frozenset({"1", "5", "10"})
TTL_MAX_SECONDS: Final = 30 * 86_400
PAYLOAD_MAX_BYTES: Final = 4_096
VOIP_MAX_BYTES: Final = 5_120
OWN_HEADERS: Final = frozenset(
    {"apns-push-type", "apns-priority", "apns-topic", "apns-collapse-id", "apns-expiration"}
)
"""Those that a message may set itself."""


@dataclass(frozen=True, slots=True)
class ApnsOptions:
    topic: str
    push_type: str = "alert"
    priority: str = ""
    """Empty: Apple's own, or what the type requires."""
    ttl_seconds: int | None = None
    own: Mapping[str, str] | None = None
    """A message's own headers."""

    @classmethod
    def of(cls, target: Target) -> Self:
        """InvalidInput: Apple would refuse them."""
        ttl = ttl_seconds(target.option("ttlSeconds", "") or None, TTL_MAX_SECONDS)
        push_type, priority = target.option("pushType", "alert"), target.option("priority", "")
        found = cls(target.option("topic"), push_type, priority, ttl)
        found.check()
        return found

    def for_message(self, payload: Mapping[str, Any]) -> Self:
        """With its own `ttlSeconds`, and the headers of its `apns`, in the form that FCM has for
        them, so that a message can go either way."""
        own = object_of(object_of(payload, "apns"), "headers")
        for name, value in own.items():
            if name not in OWN_HEADERS or not _is_text(value):
                raise InvalidInput(f"the payload's apns header '{name}' cannot be used")
        found = replace(
            self,
            push_type=own.get("apns-push-type", self.push_type),
            priority=own.get("apns-priority", self.priority),
            ttl_seconds=ttl_seconds(payload.get("ttlSeconds", self.ttl_seconds), TTL_MAX_SECONDS),
            own=own,
        )
        found.check()
        return found

    def check(self) -> None:
        if self.push_type not in PUSH_TYPES:
            raise InvalidInput(f"the push type is not one of {', '.join(sorted(PUSH_TYPES))}")
        if self.priority and self.priority not in PRIORITIES:
            raise InvalidInput("the priority is neither 1, 5 nor 10")
        if self.push_type == "background" and self.priority == "10":
            raise InvalidInput("the priority of a background notification is at most 5")
        if not _is_text(self.topic):
            raise InvalidInput("the topic is not an app's bundle id")
        if len((self.own or {}).get("apns-collapse-id", "")) > COLLAPSE_ID_MAX_BYTES:
            raise InvalidInput(f"apns-collapse-id is longer than {COLLAPSE_ID_MAX_BYTES} bytes")

    @property
    def payload_max_bytes(self) -> int:
        return VOIP_MAX_BYTES if self.push_type == "voip" else PAYLOAD_MAX_BYTES

    def headers(self, collapse_id: str, now: float) -> dict[str, str]:
        found = {
            "apns-topic": self.topic,
            "apns-push-type": self.push_type,
            "apns-priority": self.priority or ("5" if self.push_type == "background" else "10"),
            "apns-collapse-id": collapse_id,
        }
        if self.ttl_seconds is not None:
            # In seconds since 1970; 0 means to try once.
            found["apns-expiration"] = str(int(now) + self.ttl_seconds if self.ttl_seconds else 0)
        return {**found, **(self.own or {})}


def payload_of(content: Content, push_type: str) -> dict[str, Any]:
    """A message's own `apns.payload` takes precedence; its `data` is for the app alone."""
    usual: dict[str, Any] = {"content-available": 1}
    if push_type != "background":
        alert = {"title": content.subject, "body": content.body}
        usual = {"alert": {name: text for name, text in alert.items() if text}, "sound": "default"}
    data = object_of(content.payload, "data")
    own = object_of(object_of(content.payload, "apns"), "payload")
    return merged({**data, "aps": usual}, own)


def _is_text(value: object) -> bool:
    """What a header can carry."""
    return (
        isinstance(value, str) and value.isascii() and value.isprintable() and bool(value.strip())
    )

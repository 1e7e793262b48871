"""The address of a sink: which kind of bus it is, and what its URL may say.

A URL is shown, logged and passed on, so it never holds a secret: those are references beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, urlsplit


class SinkKind(StrEnum):
    WEBHOOK = "webhook"
    NATS = "nats"
    REDIS = "redis"


SCHEMES = {
    "http": SinkKind.WEBHOOK,
    "https": SinkKind.WEBHOOK,
    "nats": SinkKind.NATS,
    "tls": SinkKind.NATS,
    "redis": SinkKind.REDIS,
    "rediss": SinkKind.REDIS,
    "unix": SinkKind.REDIS,
}
"""`tls` is NATS's own word for its TLS, `unix` is a Redis on a socket of this machine."""

OPTIONS = {
    SinkKind.NATS: frozenset({"stream", "subject"}),
    SinkKind.REDIS: frozenset({"stream", "maxlen"}),
}
"""The query options each kind allows; a webhook's query belongs to the receiver."""

PORTS = {"http": 80, "https": 443, "nats": 4222, "tls": 4222, "redis": 6379, "rediss": 6379}


@dataclass(frozen=True, slots=True)
class SinkUrl:
    """`server` is the address without its options; `host` is None for a socket of this machine."""

    kind: SinkKind
    scheme: str
    server: str
    host: str | None
    port: int
    user: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def sink_url(text: str) -> SinkUrl:
    """The parsed address; ValueError says what is wrong with it, and never repeats a password."""
    try:
        parts = urlsplit(text)
        port, user, password = parts.port, parts.username, parts.password
    except ValueError:
        raise ValueError("is not a URL") from None
    kind = SCHEMES.get(parts.scheme)
    if kind is None:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"'{parts.scheme}' is not a kind of sink; use one of {known}")
    if password is not None:
        raise ValueError("must not contain a password: use `secret`, as env:NAME or file:PATH")
    if user is not None and kind is SinkKind.WEBHOOK:
        raise ValueError("must not contain a user: a webhook is signed with its `secret`")
    if parts.scheme != "unix" and not parts.hostname:
        raise ValueError("has no host")
    if parts.fragment:
        raise ValueError("should have no fragment")
    return SinkUrl(
        kind,
        parts.scheme,
        text if kind is SinkKind.WEBHOOK else parts._replace(query="").geturl(),
        parts.hostname,
        port or PORTS.get(parts.scheme, 0),
        user,
        _options(kind, parts.query),
    )


def _options(kind: SinkKind, query: str) -> dict[str, str]:
    known = OPTIONS.get(kind)
    if known is None:
        return {}
    found = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ValueError(
            f"has options that are unknown to a {kind.value} sink: {', '.join(unknown)};"
            f" known are {', '.join(sorted(known))}"
        )
    return found

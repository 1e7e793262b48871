"""The public URL of this server: the prefix of every link in a message.

It is used in e-mail headers and plain text, so it must be a bare URL.
"""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

PUBLIC_URL_MAX_CHARACTERS: Final = 300
"""Short enough to fit on one header line with a recipient's token appended."""

_PLAIN = re.compile(r"[A-Za-z0-9:/\[\]._~%-]+\Z")


def public_url(text: str) -> str:
    """The URL without a trailing slash; ValueError says what is wrong with it."""
    if len(text) > PUBLIC_URL_MAX_CHARACTERS:
        raise ValueError(f"should have at most {PUBLIC_URL_MAX_CHARACTERS} characters")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("should be an https URL, such as https://news.example.com")
    if parts.username is not None or "?" in text or "#" in text:
        raise ValueError("must not contain a user, a query or a fragment")
    if not _PLAIN.match(text):
        raise ValueError("must contain only characters of a host and a path")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(
            "should be https: over http, anyone on the network could opt out other people"
        )
    return text.rstrip("/")


def server_url(text: str) -> str:
    """Another system's address: http or https, a host, and perhaps a path; no trailing slash."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("should be a URL, such as https://conductor.internal:8080")
    if parts.username is not None or "?" in text or "#" in text or not _PLAIN.match(text):
        raise ValueError("must contain only a host, a port and a path")
    return text.rstrip("/")


def is_private_way(url: str) -> bool:
    """Whether the connection is encrypted or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

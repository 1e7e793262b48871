"""Where recipients reach this server: the beginning of every link that a message carries.

It goes into the headers of e-mails and is read in plain text, so it holds nothing but an address.
"""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

PUBLIC_URL_MAX_CHARACTERS: Final = 300
"""With a recipient's token behind it, it still fits on one line of a header."""

_PLAIN = re.compile(r"[A-Za-z0-9:/\[\]._~%-]+\Z")


def public_url(text: str) -> str:
    """The URL without a slash at its end; ValueError says what is wrong with it."""
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


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

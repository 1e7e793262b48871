"""Database URLs as they may be shown: anything that could be a password is removed."""

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from outrider.domain.errors import InvalidInput

HIDDEN = "***"

_WHO = re.compile(r"(?<=//)[^/?#\s]*@|(?<=//).*@", re.DOTALL)
_PASSWORD = re.compile(r"((?:password|passfile|sslpassword|sslkey)=)[^&\s]*", re.IGNORECASE)


def masked(url: str) -> str:
    """The URL without user, password and options that hold secrets."""
    return _PASSWORD.sub(rf"\1{HIDDEN}", _WHO.sub(f"{HIDDEN}@", url))


def require_postgres_url(url: str) -> None:
    """Raise InvalidInput, without repeating the URL, where a driver would fail to parse it."""
    try:
        parts = urlsplit(url)
        _ = parts.port, parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise InvalidInput(
            "the database URL cannot be read",
            hint="use postgresql://USER:PASSWORD@HOST:PORT/DATABASE; in the password, write"
            " %40 for @, %2F for /, %23 for # and %3A for :",
        ) from None


def without_password(text: str, url: str) -> str:
    """A driver's message, with any password or piece of the URL removed."""
    for secret in _secrets(url):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(url: str) -> list[str]:
    after = url.partition("//")[2]
    who, at, _ = after.rpartition("@")
    given = who.partition(":")[2] if at else ""
    found = [given, unquote(given)]
    options = parse_qsl(url.partition("?")[2])
    found += [value for name, value in options if "pass" in name.lower()]
    # Longest first: replacing a shorter match first would leave the rest of a longer one readable.
    return sorted({each for each in found if each}, key=len, reverse=True)

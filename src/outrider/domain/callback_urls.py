"""Where a client wants to hear of its intent: which URLs are taken, whoever answers there."""

import re
from typing import Final
from urllib.parse import urlsplit

URL_MAX_CHARACTERS: Final = 2_048
_PLAIN: Final = re.compile(r"[\x21-\x7e]+")


def problem_with(url: str, *, allow_private: bool) -> str | None:
    """What is wrong with it, or None. Which address its name has is judged at each connection."""
    if len(url) > URL_MAX_CHARACTERS:
        return f"should have at most {URL_MAX_CHARACTERS:,} characters"
    if _PLAIN.fullmatch(url) is None:
        return "should be a URL of printable ASCII characters, without blanks"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("https", "http") or not host:
        return "should be an https:// URL with a host"
    if parts.scheme == "http" and not allow_private:
        return "should begin with https://: http:// is for servers that set allow_private_gateways"
    if parts.username is not None or parts.password is not None:
        return "should hold no user and no password: callbacks are signed"
    if parts.fragment:
        return "should have no fragment"
    return None

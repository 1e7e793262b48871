"""Untrusted text, made storable in any database."""

import re

_HEADER_BREAKERS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str | None) -> str | None:
    """Escapes NUL and lone surrogates: Postgres cannot store the former, UTF-8 the latter.

    A provider's answer must never prevent its own record from being written.
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return _UNSTORABLE.sub(_spelt_out, text)


def breaks_header(text: str) -> bool:
    """A line break in a header would let untrusted input add headers or recipients."""
    return _HEADER_BREAKERS.search(text) is not None


def _spelt_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()

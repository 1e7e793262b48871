"""Texts that a stranger sent, as any database can keep them."""

import re

_HEADER_BREAKERS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str | None) -> str | None:
    """Spells out NUL and lone surrogates: Postgres has no place for the one, UTF-8 for the other.

    A provider's answer must never be what keeps its own record from being written.
    """
    return None if text is None else _UNSTORABLE.sub(_spelt_out, text)


def breaks_header(text: str) -> bool:
    """A line break in a header would add headers, or recipients, of a stranger's choosing."""
    return _HEADER_BREAKERS.search(text) is not None


def _spelt_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()

"""Texts that a stranger sent, as any database can keep them."""

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str | None) -> str | None:
    """Spells out NUL and lone surrogates: Postgres has no place for the one, UTF-8 for the other.

    A provider's answer must never be what keeps its own record from being written.
    """
    return None if text is None else _UNSTORABLE.sub(_spelt_out, text)


def _spelt_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()

"""The links of messages, read from their templates: those that can be checked before a launch, and
those that depend on the recipient. Every step is linear in the length of the text."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import NamedTuple

from outrider.domain.campaigns import Message
from outrider.limits.phases import LINK_MAX_CHARACTERS

_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_OPENING = re.compile(r"\{[{%#]")
_ENDS_A_BLOCK = re.compile(r"\{%[-+]?\s*(?:end|el)")
_HOLE = "\ue000"
"""Replaces a template expression during the search; no real link contains it."""

_LINK = re.compile(r"(?<![A-Za-z0-9+.-])https?://[^\s<>\"'`\\\x00-\x1f\x7f]+", re.IGNORECASE)
_NOT_IN_A_LINK = re.compile(r"[\s<>\"'`\\\x00-\x1f\x7f]")
_PUNCTUATION = ".,;:!?*"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


class Links(NamedTuple):
    known: tuple[str, ...]
    templated: tuple[str, ...]


def links_of(messages: Iterable[Message]) -> Links:
    """Each link once, in reading order. A long one is visibly truncated."""
    known: dict[str, None] = {}
    templated: dict[str, None] = {}
    for message in messages:
        is_html = message.body.lstrip().startswith("<")
        found = [*_links(message.subject or "", html=False), *_links(message.body, html=is_html)]
        for link in found:
            of_its_kind = templated if "{{" in link or "{%" in link else known
            of_its_kind.setdefault(link[: LINK_MAX_CHARACTERS + 1])
    return Links(tuple(known), tuple(templated))


def _links(source: str, *, html: bool) -> Iterator[str]:
    text, expressions = _with_holes(source)
    holes = iter(expressions)
    seen_until = 0
    for match in _LINK.finditer(text):
        for _ in range(text.count(_HOLE, seen_until, match.start())):
            next(holes)
        seen_until = match.end()
        filled = [next(holes) for _ in range(match[0].count(_HOLE))]
        link = match[0]
        if filled:
            parts = link.split(_HOLE)
            link = "".join(part + hole for part, hole in zip(parts, [*filled, ""], strict=True))
        elif html:
            link = _NOT_IN_A_LINK.split(unescape(link), maxsplit=1)[0]
        link = _trimmed(link)
        if not link.endswith("://"):
            yield link


def _with_holes(source: str) -> tuple[str, list[str]]:
    """The text with one character for each template expression, and the expressions in order."""
    source = source.replace(_HOLE, " ")
    pieces: list[str] = []
    expressions: list[str] = []
    unclosed: set[str] = set()
    position = 0
    for opening in _OPENING.finditer(source):
        kind = opening[0]
        if opening.start() < position or kind in unclosed:
            continue
        end = source.find(_CLOSING[kind], opening.end())
        if end < 0:
            # None of this kind is closed further on either: searching again would be quadratic.
            unclosed.add(kind)
            continue
        pieces.append(source[position : opening.start()])
        position = end + len(_CLOSING[kind])
        expression = source[opening.start() : position]
        if kind == "{#":
            continue
        if _ENDS_A_BLOCK.match(expression):
            # `{% if a %}https://b{% endif %}` contains a link that can be checked.
            pieces.append(" ")
            continue
        pieces.append(_HOLE)
        expressions.append(expression)
    pieces.append(source[position:])
    return "".join(pieces), expressions


def _trimmed(link: str) -> str:
    """Without the punctuation of the surrounding sentence; paired brackets are kept."""
    balance = {
        closing: link.count(closing) - link.count(_BRACKETS[closing]) for closing in _BRACKETS
    }
    end = len(link)
    while end:
        last = link[end - 1]
        if last in _PUNCTUATION:
            end -= 1
        elif balance.get(last, 0) > 0:
            balance[last] -= 1
            end -= 1
        else:
            break
    return link[:end]

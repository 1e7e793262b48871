"""The text of an HTML message, for mail programs and filters that read no HTML.

Blocks become lines, list items get a bullet, a link is followed by its address, and an image is its
alternative text. The markup is scanned, not parsed: whatever it is, some text comes out, in time
that grows with its length.
"""

import html
import re
from typing import Final

_TOKEN: Final = re.compile(
    # A tag ends before the next one begins, so that nothing is read twice.
    r"<!--.*?(?:-->|\Z)|<[!?][^<>]*>|<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>|[^<]+|<",
    re.DOTALL,
)
_HREF: Final = re.compile(
    r"""(?:^|\s)href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_ALT: Final = re.compile(r"""(?:^|\s)alt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_SPACE: Final = re.compile(r"[ \t\r\n\f]+")
_INVISIBLE: Final = frozenset({"head", "script", "style", "title", "template", "noscript", "svg"})
_LINES: Final = frozenset(
    {
        "address", "article", "aside", "br", "center", "dd", "div", "dt", "figcaption", "figure",
        "footer", "form", "header", "li", "main", "nav", "section", "tbody", "thead", "tr",
    }
)  # fmt: skip
_PARAGRAPHS: Final = frozenset(
    {"blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul"}
)
_CELLS: Final = frozenset({"td", "th"})
_FOLLOWED: Final = ("http:", "https:", "mailto:", "tel:")
_RULE: Final = "-" * 20


def text_of(markup: str) -> str:
    """With line feeds between its lines, and without one at its end."""
    return _Scan().text(markup)


class _Scan:
    def __init__(self) -> None:
        self._done: list[str] = []
        """Finished lines; two empty ones never follow each other."""
        self._line: list[str] = []
        """The pieces of the line that is being read; none is empty."""
        self._skipped: str | None = None
        """The element whose content nobody sees, while inside it."""
        self._verbatim = False
        self._link: tuple[str, int, int] | None = None
        """The address of the open link, and where its text begins: line and piece."""

    def text(self, markup: str) -> str:
        for token in _TOKEN.finditer(markup):
            name = token[2]
            if name is not None:
                self._tag(name.lower(), token[3], closes=bool(token[1]))
            elif self._skipped is None and not token[0].startswith(("<!", "<?")):
                self._words(html.unescape(token[0]))
        self._end_line()
        return "\n".join(self._done).strip("\n")

    def _tag(self, name: str, attributes: str, *, closes: bool) -> None:
        if self._skipped is not None:
            if closes and name == self._skipped:
                self._skipped = None
        elif name in _INVISIBLE:
            self._skipped = None if closes or attributes.endswith("/") else name
        elif name == "a":
            self._end_link() if closes else self._begin_link(attributes)
        elif name == "img":
            self._words(_value(_ALT, attributes))
        elif name == "hr":
            self._end_line()
            self._put(_RULE)
        elif name in _CELLS and closes:
            self._words(" ")
        elif name in _PARAGRAPHS:
            self._end_paragraph()
            self._verbatim = name == "pre" and not closes
        elif name == "br":
            self._break()
        elif name in _LINES:
            self._end_line()
            if name == "li" and not closes:
                self._line = ["- "]

    def _words(self, words: str) -> None:
        if self._verbatim:
            for number, line in enumerate(words.split("\n")):
                if number:
                    self._break()
                self._add(line.rstrip("\r"))
            return
        words = _SPACE.sub(" ", words)
        is_after_space = not self._line or self._line[-1].endswith(" ")
        self._add(words.lstrip(" ") if is_after_space else words)

    def _add(self, piece: str) -> None:
        if piece:
            self._line.append(piece)

    def _begin_link(self, attributes: str) -> None:
        address = _value(_HREF, attributes).strip()
        self._link = address, len(self._done), len(self._line)

    def _end_link(self) -> None:
        if self._link is None:
            return
        (address, line, piece), self._link = self._link, None
        shown = "".join(self._line[piece if line == len(self._done) else 0 :]).strip()
        # An address that is its own text is not repeated; one inside the page leads nowhere here.
        _, _, without_scheme = address.partition(":")
        if not address.lower().startswith(_FOLLOWED) or shown in (address, without_scheme):
            return
        self._words(f" ({address})" if shown else address)

    def _break(self) -> None:
        """Also an empty line counts."""
        line, self._line = "".join(self._line).rstrip(), []
        self._put(line)

    def _end_line(self) -> None:
        line, self._line = "".join(self._line).rstrip(), []
        if line:
            self._put(line)

    def _end_paragraph(self) -> None:
        self._end_line()
        self._put("")

    def _put(self, line: str) -> None:
        if line or (self._done and self._done[-1]):
            self._done.append(line)


def _value(attribute: re.Pattern[str], attributes: str) -> str:
    found = attribute.search(attributes)
    return (
        "" if found is None else html.unescape(next((each for each in found.groups() if each), ""))
    )

"""An accepted quote as a PDF: its details, its items in a table, and its total.

Windows-1252 text is set in Helvetica, which every reader has. For anything else the letters used
are embedded: Source Sans for Latin, Greek and Cyrillic, Noto Sans CJK for Chinese, Japanese and
Korean. Both come with packages from PyPI, so no system fonts are needed.
"""

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Final

from outrider.legacy.event_fields import Quote
from outrider.limits.workflows import QUOTE_AMOUNT_MAX_CHARACTERS, QUOTE_LETTERS_MAX

if TYPE_CHECKING:
    from fpdf import FPDF

MARGIN: Final = 56.0
"""In points, like all measures here."""
SIZE, TITLE_SIZE, FOOTER_SIZE = 10.0, 18.0, 8.0
LINE_HEIGHT: Final = 1.4
COLUMNS: Final = {"Description": 249, "Quantity": 78, "Unit price": 78, "Total": 78}
"""Their widths. An amount of the widest letters still fits on one page."""
WESTERN: Final = "cp1252"
MADE_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""A constant, because the same quote must give the same bytes."""
PAGE_COUNT: Final = "\x01000"
"""A placeholder for the number of pages until that is known. No shown text can contain it."""
FIRST_LETTER: Final = "\ufeff"
"""Zero width. fpdf2 loses the font of what follows a text that begins in a fallback font."""
JAPANESE, KOREAN, CHINESE = range(3)
"""The faces of Noto Sans CJK: the same character is drawn differently in each language."""


def quote_pdf(quote: Quote, customer: str) -> bytes:
    """The same quote and customer give the same bytes."""
    heading = f"Quote {quote.number}" if quote.number else "Your quote"
    amounts = QUOTE_AMOUNT_MAX_CHARACTERS
    rows = [(item.description, *(text[:amounts] for text in item[1:])) for item in quote.items]
    given = [heading, quote.title, customer, quote.accepted_at, quote.total, *chain(*rows)]
    texts, letters = _showable(given)
    heading, title, customer, accepted_at, total, *cells = texts
    page = _page(letters)
    page.set_title(heading.removeprefix(FIRST_LETTER))
    _paragraph(page, heading, TITLE_SIZE, bold=True)
    _paragraph(page, title)
    page.ln(SIZE * LINE_HEIGHT)
    for name, fact in {"For": customer, "Accepted": accepted_at}.items():
        if fact:
            _paragraph(page, f"{name}: {fact}")
    if cells:
        _table(page, zip(*[iter(cells)] * len(COLUMNS), strict=True))
    if quote.more_items:
        _paragraph(page, f"and {quote.more_items} more")
    if total:
        page.ln(SIZE * LINE_HEIGHT)
        _paragraph(page, f"Total: {total}", bold=True)
    return bytes(page.output())


def _showable(given: Sequence[str]) -> tuple[list[str], str]:
    """The same texts, and their letters that need a font: each takes time to embed."""
    composed = [unicodedata.normalize("NFC", text) for text in given]
    letters = [each for each in dict.fromkeys("".join(composed)) if not _is_western(each)]
    too_many = {ord(each): "?" for each in letters[QUOTE_LETTERS_MAX:]}
    begin = FIRST_LETTER if letters else ""
    texts = [text and begin + text.translate(too_many) for text in composed]
    return texts, "".join(letters[:QUOTE_LETTERS_MAX])


def _is_western(letter: str) -> bool:
    try:
        letter.encode(WESTERN)
    except UnicodeEncodeError:
        return False
    return True


def _page(letters: str) -> "FPDF":
    """A document that can show these letters, at its first page."""
    # Imported here: it takes a quarter of a second and few processes ever make a PDF.
    from fpdf import FPDF

    class Document(FPDF):
        def footer(self) -> None:
            self.set_y(-MARGIN)
            self.set_font(self.font_family, size=FOOTER_SIZE)
            self.cell(0, text=f"{self.page_no()} / {PAGE_COUNT}", align="R")

    # They log every letter that no font has, and unneeded font tables.
    for library in ("fpdf", "fontTools"):
        logging.getLogger(library).setLevel(logging.ERROR)
    page = Document(unit="pt", format="A4")
    page.set_margin(MARGIN)
    page.set_auto_page_break(True, MARGIN + 2 * FOOTER_SIZE)
    page.set_producer("Outrider")
    page.set_creation_date(MADE_AT)
    page.alias_nb_pages(PAGE_COUNT)
    page.c_margin = 0
    page.core_fonts_encoding = WESTERN
    page.set_font(_family(page, letters), size=SIZE)
    page.add_page()
    return page


def _family(page: "FPDF", letters: str) -> str:
    from fpdf.fonts import CoreFont

    if not letters:
        return "Helvetica"
    sans = files("font_source_sans_pro") / "files"
    page.add_font("Sans", "", str(sans / "SourceSansPro-Regular.ttf"))
    page.add_font("Sans", "B", str(sans / "SourceSansPro-Bold.ttf"))
    font = page.fonts["sans"]
    assert not isinstance(font, CoreFont)
    if any(ord(letter) not in font.cmap for letter in letters):
        cjk = str(files("noto_cjk_sans_otc") / "NotoSansCJK-Regular.ttc")
        page.add_font("CJK", "", cjk, collection_font_number=_face(letters))
        page.set_fallback_fonts(["CJK"], exact_match=False)
    return "Sans"


def _face(letters: str) -> int:
    names = {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}
    if names & {"HIRAGANA", "KATAKANA"}:
        return JAPANESE
    return KOREAN if "HANGUL" in names else CHINESE


def _paragraph(page: "FPDF", text: str, size: float = SIZE, *, bold: bool = False) -> None:
    if text:
        page.set_font(page.font_family, "B" if bold else "", size)
        page.multi_cell(0, size * LINE_HEIGHT, text, align="L", new_x="LMARGIN", new_y="NEXT")


def _table(page: "FPDF", rows: Iterable[Sequence[str]]) -> None:
    page.ln(SIZE * LINE_HEIGHT)
    page.set_font(page.font_family, "", SIZE)
    with page.table(
        borders_layout="NONE",
        col_widths=tuple(COLUMNS.values()),
        text_align=("LEFT", "RIGHT", "RIGHT", "RIGHT"),
        line_height=SIZE * LINE_HEIGHT,
        padding=0,
        v_align="TOP",
    ) as table:
        table.row(tuple(COLUMNS))
        for row in rows:
            table.row(row)

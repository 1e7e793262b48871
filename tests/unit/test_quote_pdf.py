"""The PDF of a quote: readable by a strict parser, complete, and the same bytes every time."""

import hashlib
import io

import pypdf
from hypothesis import given
from hypothesis import strategies as st

from outrider.legacy.pdf import Cell, Line, document, text_width, win_ansi, wrapped
from outrider.legacy.quote_pdf import quote_pdf
from outrider.legacy.told import Quote, QuoteItem

ALPHABETS_END = 0x3000
SHA256 = "3f151573a45a5c122b14ffac0b31eab9f4159e8a34fc39aeac23aab421e5e636"
QUOTE = Quote(
    "Q-17 (b)",
    "Roof & solar – “phase two” \\ (east",
    "",
    "2026-11-02T10:00:00Z",
    "EUR",
    "12,345.50 €",
    (
        QuoteItem(
            "Panel, 400 W, with rails and clamps for a tiled roof", "12", "199.00", "2,388.00"
        ),
        QuoteItem("Überspannungsschutz", "1", "on request"),
    ),
)


def pages(content: bytes) -> list[str]:
    """Strict: a wrong offset, length or table is an error and not repaired."""
    return [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content), strict=True).pages]


def test_everything_that_is_known_of_a_quote_is_on_its_page() -> None:
    [page] = pages(quote_pdf(QUOTE, "Zoë Łukasik"))
    for text in (
        "Quote Q-17 (b)", QUOTE.title, "For: Zoë Lukasik", "Accepted: 2026-11-02T10:00:00Z",
        "Description", "Panel, 400 W", "12", "199.00", "2,388.00", "Überspannungsschutz",
        "on request", "Total: 12,345.50 €", "1 / 1",
    ):  # fmt: skip
        assert text in page


def test_a_quote_of_which_nothing_is_known_is_a_page_all_the_same() -> None:
    [page] = pages(quote_pdf(Quote(), ""))
    assert page.split() == ["Your", "quote", "1", "/", "1"]


def test_the_same_quote_is_the_same_bytes_everywhere_and_always() -> None:
    content = quote_pdf(QUOTE, "Zoë Łukasik")
    assert quote_pdf(QUOTE, "Zoë Łukasik") == content
    assert quote_pdf(QUOTE, "Somebody else") != content
    # Whoever changes the page changes this line too, and knows that old hashes are of old pages.
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_many_items_go_on_over_pages_and_each_is_on_one_of_them() -> None:
    items = tuple(QuoteItem(f"Item number {number}", "1") for number in range(120))
    found = pages(quote_pdf(QUOTE._replace(items=items, more_items=7), ""))
    assert len(found) == 3
    assert [page.splitlines()[-1] for page in found] == ["1 / 3", "2 / 3", "3 / 3"]
    lines = "\n".join(found).splitlines()
    assert [line for line in lines if line.startswith("Item number")] == [
        f"Item number {number} 1" for number in range(120)
    ]
    assert "and 7 more" in lines


def test_no_line_is_wider_than_its_column_whatever_is_in_it() -> None:
    text = "Donaudampfschifffahrtsgesellschaftskapitän " * 5 + "x" * 500
    lines = wrapped(text, 200, 10)
    assert all(text_width(line, 10) <= 200 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_every_letter_of_every_alphabet_can_be_shown_somehow() -> None:
    for code in range(ALPHABETS_END):
        shown = win_ansi(chr(code))
        assert shown.isprintable(), code
        assert len(shown.encode("cp1252")) == len(shown)
    assert win_ansi("Łódź ﬁ Ω e\u0301 €\u200b\n") == "Lódz fi ? é € "


@given(st.lists(st.text(max_size=60), max_size=80), st.text(max_size=40))
def test_no_text_breaks_the_document(texts: list[str], title: str) -> None:
    content = document(title, [Line([Cell(text)]) for text in texts])
    assert content.removeprefix(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n").isascii()
    reader = pypdf.PdfReader(io.BytesIO(content), strict=True)
    streams = b"".join(page.get_contents().get_data() for page in reader.pages)  # type: ignore[union-attr]
    assert streams.count(b" Tj ET") == len(texts) + len(reader.pages)

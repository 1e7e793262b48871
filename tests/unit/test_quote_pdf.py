"""The PDF of a quote: readable by a strict parser, complete, and the same bytes every time."""

import io
import os
import subprocess
import sys
from typing import Any

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.legacy import event_fields
from outrider.legacy.event_fields import Quote, QuoteItem
from outrider.legacy.quote_pdf import quote_pdf
from outrider.limits.workflows import QUOTE_LETTERS_MAX, QUOTE_TEXT_MAX_CHARACTERS

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
    reader = pypdf.PdfReader(io.BytesIO(content), strict=True)
    return [page.extract_text().replace("\ufeff", "") for page in reader.pages]


def compact(page: str) -> str:
    """Without what a reader may find around a letter of another font: spaces, and no character."""
    return page.replace(" ", "").replace("\0", "")


def fonts(content: bytes) -> dict[str, bool]:
    """Each font's name, and whether its letters are in the file."""
    [page] = pypdf.PdfReader(io.BytesIO(content), strict=True).pages
    used: Any = page["/Resources"]
    found = {}
    for reference in used["/Font"].values():
        font = reference.get_object()
        inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        kept = set(inner["/FontDescriptor"].get_object()) if "/FontDescriptor" in inner else set()
        found[font["/BaseFont"]] = bool(kept & {"/FontFile2", "/FontFile3"})
    return found


def test_everything_that_is_known_of_a_quote_is_on_its_page() -> None:
    [page] = pages(quote_pdf(QUOTE, "Zoë Łukasik"))
    for text in (
        "Quote Q-17 (b)", QUOTE.title, "For: Zoë Łukasik", "Accepted: 2026-11-02T10:00:00Z",
        "Description", "Panel, 400 W", "12", "199.00", "2,388.00", "Überspannungsschutz",
        "on request", "Total: 12,345.50 €", "1 / 1",
    ):  # fmt: skip
        assert text in page


def test_a_quote_without_any_details_still_makes_a_page() -> None:
    [page] = pages(quote_pdf(Quote(), ""))
    assert page.split() == ["Your", "quote", "1", "/", "1"]


def test_the_same_quote_is_the_same_bytes_in_every_process() -> None:
    content = quote_pdf(QUOTE, "Zoë Łukasik 山")
    assert quote_pdf(QUOTE, "Zoë Łukasik 山") == content
    assert quote_pdf(QUOTE, "Somebody else") != content
    elsewhere = "import sys; from tests.unit.test_quote_pdf import QUOTE, quote_pdf;"
    elsewhere += " sys.stdout.buffer.write(quote_pdf(QUOTE, 'Zoë Łukasik 山'))"
    made = subprocess.run(
        [sys.executable, "-c", elsewhere],
        env={**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo"},
        check=True,
        stdout=subprocess.PIPE,
    )
    assert made.stdout == content


def test_many_items_span_pages_and_each_is_on_one_of_them() -> None:
    items = tuple(QuoteItem(f"Item number {number}", "1") for number in range(120))
    found = pages(quote_pdf(QUOTE._replace(items=items, more_items=7), ""))
    assert len(found) == 3
    assert [page.splitlines()[-1] for page in found] == ["1 / 3", "2 / 3", "3 / 3"]
    lines = "\n".join(found).splitlines()
    assert [line for line in lines if line.startswith("Item number")] == [
        f"Item number {number} 1" for number in range(120)
    ]
    assert "and 7 more" in lines


@pytest.mark.parametrize(
    "text",
    [
        "Ελένη Παπαδοπούλου",
        "Владимир Ильич",
        "Łódź Nguyễn",
        "北京市海淀区",
        "東京タワー",
        "서울특별시",
    ],
)
def test_letters_of_other_alphabets_are_shown_as_themselves(text: str) -> None:
    """CM: the PDF showed a question mark for each of them."""
    content = quote_pdf(QUOTE._replace(title=text, items=(QuoteItem(text, "2"),)), text)
    [page] = pages(content)
    said = compact(page)
    assert said.count(text.replace(" ", "")) == 3
    assert "Accepted:2026-11-02T10:00:00Z" in said
    assert "?" not in said
    assert all(embedded for embedded in fonts(content).values())


def test_a_text_over_several_lines_may_change_alphabets_in_each() -> None:
    text = "屋根" * 20 + " roof " * 20 + "κεραμίδι " * 20 + "屋根" * 20
    [page] = pages(quote_pdf(QUOTE._replace(title=text, items=(QuoteItem(text, "1"),)), text))
    said = "".join(compact(page).split())
    assert said.count(compact(text)) == 3
    assert "Total:12,345.50€" in said


def test_a_quote_in_western_letters_embeds_no_font() -> None:
    assert fonts(quote_pdf(QUOTE, "Zoë")) == {"/Helvetica": False, "/Helvetica-Bold": False}


def test_letters_that_no_font_has_break_nothing() -> None:
    [page] = pages(quote_pdf(QUOTE._replace(title="🙂 \u05e9\u05dc\u05d5\u05dd ไทย"), "Ada"))
    assert "For: Ada" in page
    assert "Total: 12,345.50 €" in page


def test_no_more_letters_are_embedded_than_the_limit() -> None:
    letters = "".join(chr(0x4E00 + at) for at in range(QUOTE_LETTERS_MAX + 5))
    items = tuple(
        QuoteItem(letters[at : at + QUOTE_TEXT_MAX_CHARACTERS])
        for at in range(0, len(letters), QUOTE_TEXT_MAX_CHARACTERS)
    )
    [page] = pages(quote_pdf(Quote(items=items), ""))
    assert page.count("?") == 5


@pytest.mark.parametrize("widest", ["⸻", "W", "﷽"])
def test_the_widest_letters_in_every_cell_still_fit(widest: str) -> None:
    item = QuoteItem(*[widest * QUOTE_TEXT_MAX_CHARACTERS] * 4)
    assert pages(quote_pdf(QUOTE._replace(items=(item, item)), ""))


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text(max_size=60), max_size=8), st.text(max_size=40))
def test_no_text_breaks_the_document(texts: list[str], title: str) -> None:
    """As an event brings them: what cannot be printed is gone before."""
    items = tuple(
        QuoteItem(event_fields.shown(text), event_fields.shown(text[::-1])) for text in texts
    )
    quote = Quote(title=event_fields.shown(title), items=items)
    assert pages(quote_pdf(quote, event_fields.shown(title)))


def test_a_text_that_looks_like_a_page_count_is_unchanged() -> None:
    [page] = pages(quote_pdf(QUOTE._replace(title="{nb} pages"), "{nb}"))
    assert page.count("{nb}") == 2

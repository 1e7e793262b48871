"""An accepted quote as a PDF: what is known of it, its items in a table, and its total."""

from collections.abc import Iterator

from outrider.legacy.pdf import TEXT_WIDTH, Cell, Line, document, wrapped
from outrider.legacy.told import Quote, QuoteItem

SIZE, TITLE_SIZE = 10.0, 18.0
DESCRIPTION_WIDTH, AMOUNT_WIDTH = 230.0, 85.0
QUANTITY_EDGE, PRICE_EDGE, TOTAL_EDGE = 290.0, 385.0, TEXT_WIDTH
EMPTY = Line()


def quote_pdf(quote: Quote, customer: str) -> bytes:
    """The same quote and customer give the same bytes."""
    return document(_heading(quote), _lines(quote, customer))


def _heading(quote: Quote) -> str:
    return f"Quote {quote.number}" if quote.number else "Your quote"


def _lines(quote: Quote, customer: str) -> Iterator[Line]:
    for text in wrapped(_heading(quote), TEXT_WIDTH, TITLE_SIZE, bold=True):
        yield Line([Cell(text)], TITLE_SIZE, bold=True)
    for text in wrapped(quote.title, TEXT_WIDTH, SIZE):
        yield Line([Cell(text)])
    yield EMPTY
    known = {"For": customer, "Accepted": quote.accepted_at}
    for name, text in known.items():
        if text:
            yield from _paragraph(f"{name}: {text}")
    if quote.items:
        yield EMPTY
        yield from _table(quote)
    if quote.total:
        yield EMPTY
        yield from _paragraph(f"Total: {quote.total}", bold=True)


def _table(quote: Quote) -> Iterator[Line]:
    yield from _row(QuoteItem("Description", "Quantity", "Unit price", "Total"), bold=True)
    for item in quote.items:
        yield from _row(item)
    if quote.more_items:
        yield from _paragraph(f"and {quote.more_items} more")


def _row(item: QuoteItem, *, bold: bool = False) -> Iterator[Line]:
    """As many lines as its longest cell needs."""
    columns = (
        (0.0, wrapped(item.description, DESCRIPTION_WIDTH, SIZE, bold=bold)),
        (QUANTITY_EDGE, wrapped(item.quantity, QUANTITY_EDGE - DESCRIPTION_WIDTH, SIZE, bold=bold)),
        (PRICE_EDGE, wrapped(item.unit_price, AMOUNT_WIDTH, SIZE, bold=bold)),
        (TOTAL_EDGE, wrapped(item.total, AMOUNT_WIDTH, SIZE, bold=bold)),
    )
    for number in range(max(len(texts) for _, texts in columns)):
        yield Line(
            [
                Cell(texts[number], edge, right_aligned=edge > 0)
                for edge, texts in columns
                if number < len(texts)
            ],
            SIZE,
            bold,
        )


def _paragraph(text: str, *, bold: bool = False) -> Iterator[Line]:
    for line in wrapped(text, TEXT_WIDTH, SIZE, bold=bold):
        yield Line([Cell(line)], SIZE, bold)

"""An event's fields as texts that can be shown: people, and a quote with its items.

Events come from other systems: missing, empty or mistyped fields are omitted, and no remaining one
fails a template, breaks a subject line or fills a page.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from outrider.domain.workflows import DomainEvent
from outrider.limits.workflows import QUOTE_ITEMS_MAX, QUOTE_TEXT_MAX_CHARACTERS

AMOUNT_MOST = 1e15
_DIGITS = re.compile("-?[0-9][0-9.,' ]*")
PERSON_FIELDS = ("firstName", "lastName", "name", "email", "phone")


class QuoteItem(NamedTuple):
    description: str = ""
    quantity: str = ""
    unit_price: str = ""
    total: str = ""


class Quote(NamedTuple):
    number: str = ""
    title: str = ""
    url: str = ""
    accepted_at: str = ""
    currency: str = ""
    total: str = ""
    items: tuple[QuoteItem, ...] = ()
    more_items: int = 0
    """How many there are beyond those shown."""

    def as_variables(self) -> dict[str, object]:
        """Only what exists, so that a template can ask `is defined`."""
        texts = {
            "number": self.number,
            "title": self.title,
            "url": self.url,
            "acceptedAt": self.accepted_at,
            "total": self.total,
        }
        return {name: text for name, text in texts.items() if text}


def person(event: DomainEvent, party: str) -> dict[str, str]:
    """What is known about a party of the event, for a template."""
    given = event.party(party)
    fields = {field: shown(given.get(field)) for field in PERSON_FIELDS}
    full = fields["name"] or " ".join(filter(None, (fields["firstName"], fields["lastName"])))
    return {field: text for field, text in {**fields, "name": full}.items() if text}


def quote(event: DomainEvent) -> Quote:
    """From `quote` among the variables, the subject's `quote`, or the variables themselves."""
    sources = list(_sources(event))

    def found(name: str) -> Any:
        return next((each[name] for each in sources if each.get(name) is not None), None)

    currency = shown(found("currency"))
    given = found("items")
    items = given if isinstance(given, list) else []
    return Quote(
        shown(found("number")),
        shown(found("title")),
        _link(found("url")),
        shown(found("acceptedAt")),
        currency,
        amount(found("total"), currency),
        tuple(_item(each, currency) for each in items[:QUOTE_ITEMS_MAX]),
        max(0, len(items) - QUOTE_ITEMS_MAX),
    )


def shown(value: Any) -> str:
    """One line of text; empty if it is neither a text nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = value if isinstance(value, str) else _number(value)
    cut = text[: 2 * QUOTE_TEXT_MAX_CHARACTERS]
    line = " ".join("".join(each if each.isprintable() else " " for each in cut).split())
    return line[:QUOTE_TEXT_MAX_CHARACTERS]


def amount(value: Any, currency: str) -> str:
    """A number with cents and thousands separators, followed by the currency; a text unchanged."""
    text = shown(value)
    if text and not isinstance(value, str):
        text = f"{value:,.2f}"
    return f"{text} {currency}" if currency and _DIGITS.fullmatch(text) else text


def _number(value: float) -> str:
    """Neither infinite nor unreadably long."""
    if not abs(value) < AMOUNT_MOST:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _item(given: Any, currency: str) -> QuoteItem:
    if not isinstance(given, Mapping):
        return QuoteItem(shown(given))
    return QuoteItem(
        shown(given.get("description")),
        shown(given.get("quantity")),
        amount(given.get("unitPrice"), currency),
        amount(given.get("total"), currency),
    )


def _link(value: Any) -> str:
    text = shown(value)
    return text if text.startswith(("https://", "http://")) and " " not in text else ""


def _sources(event: DomainEvent) -> Iterator[Mapping[str, Any]]:
    for given in (event.variables.get("quote"), event.subject.get("quote"), event.variables):
        if isinstance(given, Mapping):
            yield given

"""The page of answers is written from the families' tables."""

from pathlib import Path

from outrider.domain.blame import Party, Proof
from outrider.gateways.answer_table import PROVIDERS, json_rows, provider_rows, smtp_rows, tables
from outrider.gateways.directory import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "answers.md"


def test_the_page_of_answers_is_what_the_tables_say() -> None:
    """A3, X1: run `python -m outrider.gateways.answer_table` and replace what it has written."""
    assert PAGE.read_text().partition("<!-- tables -->\n")[2] == tables()


def test_every_family_has_a_table_and_every_row_a_source() -> None:
    named = {family.type.name for family in PROVIDERS} | {"smtp", "sms", "push", "noop"}
    assert named == set(FAMILIES)
    rows = [*smtp_rows(), *json_rows(), *(row for each in PROVIDERS for row in provider_rows(each))]
    for row in rows:
        assert row.source, row
        # What proves nothing blames nobody, and what blames us has never taken anything.
        assert (row.about is None) == (row.proves is Proof.NEITHER), row
        assert row.about is Party.ITEM or row.proves is not Proof.TAKEN, row

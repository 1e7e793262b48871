"""Named statements: what a file says, and what stands for another statement, less a clause."""

from pathlib import Path

import pytest

from outrider.stores.compiler import Dialect
from outrider.stores.statements import load_statements

FILE = """-- What this file is about.

-- name: add
-- Adds it.
INSERT INTO things (id) VALUES (:id)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: add_new
-- It cannot be there.
-- as add without ON CONFLICT DO NOTHING

-- name: add_too
-- as add
"""


def test_a_statement_may_be_another_one_without_a_clause(tmp_path: Path) -> None:
    (tmp_path / "things.sql").write_text(FILE)
    found = load_statements(tmp_path)
    assert found["add_new"].sql.split() == [
        "INSERT",
        "INTO",
        "things",
        "(id)",
        "VALUES",
        "(:id)",
        "RETURNING",
        "id",
    ]
    assert found["add_new"].description == "It cannot be there."
    assert found["add_too"].sql == found["add"].sql


@pytest.mark.parametrize(
    "wrong",
    [
        FILE.replace("without ON CONFLICT DO NOTHING", "without ON CONFLICT DO UPDATE"),
        FILE + "SELECT 1;",
    ],
)
def test_a_missing_clause_and_unknown_words_are_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "things.sql").write_text(wrong)
    with pytest.raises(AssertionError):
        load_statements(tmp_path)


VARIANTS = """-- name: wait
-- One at a time.
-- postgres:
SELECT pg_advisory_xact_lock(:id);
-- sqlite:
SELECT :id;

-- name: take
SELECT item.n::int FROM window(id uuid, n int) AS item;
"""


def test_each_database_has_its_own_variant_of_a_statement(tmp_path: Path) -> None:
    (tmp_path / "things.sql").write_text(VARIANTS)
    in_postgres = load_statements(tmp_path, Dialect.POSTGRES)
    in_sqlite = load_statements(tmp_path, Dialect.SQLITE)
    assert in_postgres["wait"].sql == "SELECT pg_advisory_xact_lock(:id)"
    assert in_sqlite["wait"].sql == "SELECT :id"
    assert in_sqlite["wait"].description == "One at a time."
    assert in_sqlite["take"].window == in_postgres["take"].window == ("id", "n")

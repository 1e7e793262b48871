"""Exports as providers write them: every format, delimiter, encoding and header is understood."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from outrider.documents.provider_export import ExportFormat, ExportSummary, open_export
from outrider.domain.errors import InvalidInput
from outrider.domain.provider_exports import (
    DoubtedCall,
    ExportField,
    ExportRow,
    Meaning,
    by_content,
    meaning_of,
    same_recipient,
    time_in,
)

KEY, OTHER = "a1" * 32, "b2" * 32
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def read(path: Path, given: bytes, **mapping: str) -> tuple[list[ExportRow], ExportSummary]:
    path.write_bytes(given)
    wanted = {ExportField(name): column for name, column in mapping.items()} or None
    summary, rows = open_export(path, wanted)
    return list(rows), summary


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_export_is_read_whatever_its_delimiter_and_encoding(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    lines = [
        ["Message SID", "To", "Date Sent", "Status", "Client Ref", "Name"],
        ["SM1", "+44 7700 900123", "2026-11-17 12:00:00", "delivered", KEY, "Zoë"],
        ["SM2", "+447700900124", "2026-11-17T12:01:00Z", "failed", f"<{OTHER}@x.test>", "Ada"],
    ]
    text = "\r\n".join(delimiter.join(line) for line in lines) + "\r\n"
    rows, summary = read(tmp_path / "export", text.encode(encoding))
    assert rows == [
        ExportRow(2, KEY, "SM1", "+44 7700 900123", NOON, "delivered"),
        ExportRow(3, OTHER, "SM2", "+447700900124", NOON.replace(minute=1), "failed"),
    ]
    assert (summary.delimiter, summary.has_header) == (delimiter, True)
    assert summary.mapping == {
        ExportField.REFERENCE: "Client Ref", ExportField.PROVIDER_MESSAGE_ID: "Message SID",
        ExportField.RECIPIENT: "To", ExportField.TIME: "Date Sent", ExportField.STATUS: "Status",
    }  # fmt: skip


def test_titles_before_the_header_and_an_excel_separator_are_passed_over(tmp_path: Path) -> None:
    text = f"sep=;\nMessage log of November\n\nReference;Status\n{KEY};sent\n"
    rows, summary = read(tmp_path / "export", text.encode())
    assert rows == [ExportRow(5, KEY, status="sent")]
    assert summary.columns == ("Reference", "Status")


def test_an_export_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    rows, summary = read(tmp_path / "export", f"{KEY},sent\n{OTHER},failed\n".encode())
    assert summary.columns == ("column 1", "column 2")
    assert [row.reference for row in rows] == [KEY, OTHER]
    rows, _ = read(
        tmp_path / "export", f"{KEY},sent\n".encode(), reference="column 1", status="column 2"
    )
    assert rows == [ExportRow(1, KEY, status="sent")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f'[{{"ref": "{KEY}", "to": {{"number": "+44"}}}}]', ExportFormat.JSON),
        (f'{{"page": 0, "messages": [{{"ref": "{KEY}", "to": {{"number": "+44"}}}}]}}',
         ExportFormat.JSON),
        (f'{{"ref": "{KEY}", "to": {{"number": "+44"}}, "files": [{{"name": "a"}}]}}',
         ExportFormat.NDJSON),
    ],
)  # fmt: skip
def test_json_is_an_array_a_document_around_one_or_lines(
    tmp_path: Path, text: str, kind: ExportFormat
) -> None:
    rows, summary = read(tmp_path / "export", text.encode())
    assert [row.reference for row in rows] == [KEY]
    assert summary.format is kind
    assert "to.number" in summary.columns


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    text = f"reference,status\n{KEY},sent\nonly one\n{OTHER},sent\n"
    rows, summary = read(tmp_path / "export", text.encode())
    assert [row.reference for row in rows] == [KEY, OTHER]
    assert summary.unreadable == 1
    assert (summary.problems[0].path, summary.problems[0].message) == (
        "line 3",
        "has 1 cells, and the header 2",
    )
    rows, summary = read(tmp_path / "export", f'{{"reference": "{KEY}"}}\n{{oops\n'.encode())
    assert (len(rows), summary.unreadable) == (1, 1)


def test_a_column_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path / "export", b"reference,status\na,b\n", reference="Reference")
    assert caught.value.problems[0].path == "mapping.reference"
    assert "it has: reference, status" in caught.value.problems[0].message


@pytest.mark.parametrize("start", [b"PK\x03\x04rest", b"\x1f\x8brest", b"%PDF-1.7"])
def test_a_binary_file_says_what_to_export_instead(tmp_path: Path, start: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path / "export", start)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-17T12:00:00Z", NOON), ("2026-11-17T13:00:00+01:00", NOON),
        ("2026-11-17 12:00:00", NOON), ("2026/11/17 12:00", NOON), ("1794916800", NOON),
        ("1794916800000", NOON), ("Tue, 17 Nov 2026 12:00:00 +0000", NOON),
        ("11/12/2026 12:00", None), ("soon", None), ("", None),
    ],
)  # fmt: skip
def test_times_are_read_where_they_have_one_meaning(text: str, time: datetime | None) -> None:
    assert time_in(text) == time


def test_a_status_means_what_providers_mean_by_it_unless_somebody_says_otherwise() -> None:
    assert meaning_of("Delivered", {}) is Meaning.SENT
    assert meaning_of("Undelivered", {}) is Meaning.SENT
    assert meaning_of("REJECTED", {}) is Meaning.FAILED
    assert meaning_of("false", {}) is Meaning.NOT_RECEIVED
    assert meaning_of("hmm", {}) is Meaning.UNCLEAR
    assert meaning_of(None, {}) is Meaning.SENT
    assert meaning_of("Delivered", {"delivered": Meaning.FAILED}) is Meaning.FAILED


def test_an_address_is_the_same_however_a_provider_spells_it() -> None:
    assert same_recipient("+44 7700-900123") == same_recipient("whatsapp:+447700900123")
    assert same_recipient("00447700900123") == same_recipient("447700900123")
    assert same_recipient("Ada@Example.test") == "ada@example.test"


def test_a_row_fits_a_call_only_if_nothing_else_fits_either() -> None:
    def call(name: str, address: str) -> DoubtedCall:
        return DoubtedCall(name, KEY, address, NOON, NOON)

    rows = [
        ExportRow(1, recipient="+1", time=NOON),
        ExportRow(2, recipient="+2", time=NOON),
        ExportRow(3, recipient="+2", time=NOON),
        ExportRow(4, recipient="+3", time=NOON.replace(hour=14)),
        ExportRow(5, recipient="+4", time=NOON),
    ]
    calls = [call("a", "+1"), call("b", "+2"), call("c", "+3"), call("d", "+4"), call("e", "+4")]
    matched, ambiguous = by_content(rows, calls, 60)
    assert {outbox_id: row.line for outbox_id, row in matched.items()} == {"a": 1}
    assert ambiguous == 3

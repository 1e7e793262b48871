"""Audience files: streamed recipients, or the line of every mistake."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.documents.audience import read_audience
from outrider.domain.errors import InvalidInput
from outrider.domain.recipients import AddressKind, Recipient
from outrider.limits.campaigns import AUDIENCE_LINE_MAX_CHARACTERS, PROBLEMS_SHOWN_MAX


def read(folder: Path, content: str | bytes, name: str = "audience.csv") -> list[Recipient]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_audience(path, {"offer"}))


def problems(folder: Path, content: str | bytes, name: str = "audience.csv") -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(folder, content, name)
    return [str(problem) for problem in caught.value.problems]


def test_known_columns_are_fields_and_the_others_are_attributes(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        "id,email,phone,pushToken,message,firstName,city\n"
        'lead-1,a@example.test,+447700900123,tok,offer,Ada,"New\nYork, NY"\n'
        "\n"
        "lead-2,,,,,,\n",
    )
    assert (first.email, first.phone, first.push_token) == (
        "a@example.test",
        "+447700900123",
        "tok",
    )
    assert first.message_id == "offer"
    assert json.loads(first.attributes) == {"firstName": "Ada", "city": "New\nYork, NY"}
    assert (second.email, second.phone, second.push_token, second.message_id) == (None,) * 4
    assert json.loads(second.attributes) == {"firstName": "", "city": ""}


@pytest.mark.parametrize("name", ["audience.ndjson", "audience.jsonl"])
def test_ndjson_has_one_recipient_a_line(tmp_path: Path, name: str) -> None:
    first, second = read(
        tmp_path, '{"id": "a", "attributes": {"n": 1}}\r\n\n{"id": "b", "phone": "nope"}', name
    )
    assert (first.id, first.attributes) == ("a", '{"n":1}')
    assert (second.id, second.invalid) == ("b", AddressKind.PHONE)


def test_a_byte_order_mark_is_tolerated_in_both_formats(tmp_path: Path) -> None:
    assert [one.id for one in read(tmp_path, b"\xef\xbb\xbfid\na\n")] == ["a"]
    assert [one.id for one in read(tmp_path, b'\xef\xbb\xbf{"id": "a"}', "a.ndjson")] == ["a"]


def test_every_mistake_of_a_csv_is_reported_with_its_line(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        b"id,email,message,name\n"
        b"a,,,Ada\n"
        b"a,,,Bob\n"
        b"b|c,,,Bob\n"
        b"d,,nowhere,Bob\n"
        b"e,too few\n"
        b"f,,,\xff\n"
        b",,,Bob\n",
    ) == [
        "line 3, id: is the same as that of line 2",
        "line 4, id: must not contain '|'",
        "line 5, message: is not the id of a message of this campaign",
        "line 6: has 2 columns, the header 4",
        "line 7, attributes: must not contain broken Unicode",
        "line 8, id: should have 1 to 200 characters",
    ]


def test_every_mistake_of_an_ndjson_is_reported_with_its_line(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        b'{"id": "a"}\n'
        b'{"id": "a"}\n'
        b"{oops}\n"
        b'{"id": "b", "id": "c"}\n'
        b'{"id": "d", "nickname": "D"}\n'
        b'["e"]\n'
        b'{"id": "f", "attributes": {"n": NaN}}\n'
        b'{"id": "\xff"}\n',
        "a.ndjson",
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "line 2, id", "line 3", "line 4", "line 5, nickname", "line 6", "line 7", "line 8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "column 'id'"),
        ("email,phone", "column 'id'"),
        ("id,email,email", "'email' is given twice"),
        ("id,,name", "should have a name"),
    ],
)
def test_a_csv_needs_a_usable_header(tmp_path: Path, header: str, message: str) -> None:
    (found,) = problems(tmp_path, header + "\na,b,c\n")
    assert message in found


def test_good_recipients_are_yielded_before_a_mistake_and_none_after(tmp_path: Path) -> None:
    path = tmp_path / "audience.csv"
    path.write_text("id\na\nb\n|\nc\n")
    reader = read_audience(path, ())
    assert [next(reader).id, next(reader).id] == ["a", "b"]
    with pytest.raises(InvalidInput):
        next(reader)


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.csv", "|\n"), ("a.csv", "1,2\n"), ("a.ndjson", "{\n"), ("a.ndjson", "1\n")],
)
def test_reading_stops_where_no_more_problems_would_be_shown(
    tmp_path: Path, name: str, line: str
) -> None:
    head = "id\n" if name == "a.csv" else ""
    assert len(problems(tmp_path, head + line * 10_000, name)) == PROBLEMS_SHOWN_MAX


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson"])
def test_a_line_without_end_is_refused_without_being_read_whole(tmp_path: Path, name: str) -> None:
    assert problems(tmp_path, "id\n" + "x" * (3 * AUDIENCE_LINE_MAX_CHARACTERS), name)


def test_an_unclosed_quote_is_reported(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, 'id,name\na,"open\nb,x\n')
    assert "is not CSV" in found


def test_a_missing_file_is_reported_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name in ("gone.csv", "folder.csv"):
        with pytest.raises(InvalidInput) as caught:
            list(read_audience(tmp_path / name, ()))
        (problem,) = caught.value.problems
        assert "the path is relative to the campaign file" in problem.message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(), name=st.sampled_from(["a.csv", "a.ndjson"]), head=st.booleans())
def test_any_bytes_are_an_audience_or_a_list_of_problems(
    tmp_path: Path, content: bytes, name: str, head: bool
) -> None:
    start = (b"id,x\n" if name == "a.csv" else b'{"id": "a"}\n') if head else b""
    with suppress(InvalidInput):
        read(tmp_path, start + content, name)

"""Campaign documents: what people write, and every mistake they make in it, at once."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.documents.campaign import CampaignDocument, parse_campaign
from outrider.domain.campaigns import Message, StepRetries
from outrider.domain.errors import InvalidInput
from outrider.domain.recipients import AddressKind
from outrider.domain.states import Channel
from outrider.kernel.transactions.campaigns import definition_document, read_definition
from outrider.limits.campaigns import BATCH_SIZE_DEFAULT, PROBLEMS_SHOWN_MAX

MESSAGE = {
    "id": "offer",
    "channel": "sms",
    "submissionTarget": "sms.realtime",
    "body": "Hi {{ a }}",
}
CAMPAIGN: dict[str, Any] = {
    "name": "Spring offer",
    "audience": {"recipients": [{"id": "lead-1", "phone": "+447700900123"}]},
    "messages": [MESSAGE],
}


def check(source: str) -> str | None:
    return "line 1: unexpected end" if source.endswith("{{") else None


def parse(document: object, root: Path | None = None) -> CampaignDocument:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_campaign(raw, check_template=check, source_root=root)


def problems(document: object, root: Path | None = None) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse(document, root)
    assert caught.value.problems
    return {problem.path: problem.message for problem in caught.value.problems}


def with_message(**fields: object) -> dict[str, Any]:
    return CAMPAIGN | {"messages": [MESSAGE | fields]}


def with_recipients(*recipients: object) -> dict[str, Any]:
    return CAMPAIGN | {"audience": {"recipients": list(recipients)}}


def test_a_short_campaign_gets_the_defaults() -> None:
    definition = parse(CAMPAIGN).definition
    assert definition.phases == ("launch",)
    assert definition.batch_size == BATCH_SIZE_DEFAULT
    assert definition.scheduled_for is None
    assert definition.require_approval is False
    assert definition.messages == (Message("offer", Channel.SMS, "sms.realtime", "Hi {{ a }}"),)


def test_a_full_campaign_keeps_everything_it_says() -> None:
    document = parse(
        CAMPAIGN
        | {
            "phases": ["audience_import", "launch", "report"],
            "messages": [
                MESSAGE | {"id": "mail", "channel": "email", "subject": "For {{ a }}"},
                MESSAGE | {"id": "ring", "channel": "voice", "scriptVersion": "v3"},
            ],
            "audience": {
                "recipients": [
                    {
                        "id": "lead-1",
                        "email": "Ada@EXAMPLE.test",
                        "phone": "+44 7700 900123",
                        "pushToken": "token",
                        "attributes": {"firstName": "Ada", "tags": ["a", {"b": None}]},
                        "message": "ring",
                    }
                ]
            },
            "scheduledFor": "2026-12-01T09:00:00+01:00",
            "batchSize": 7,
            "requireApproval": True,
            "retryPolicy": {"launch": {"maxAttempts": 2, "delaySeconds": 60}},
        }
    )
    definition = document.definition
    assert definition.retry_policy == {"launch": StepRetries(2, 60)}
    assert read_definition(definition_document(definition)) == definition
    assert definition.scheduled_for == datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert (definition.batch_size, definition.require_approval) == (7, True)
    assert [message.script_version for message in definition.messages] == [None, "v3"]
    (ada,) = document.recipients()
    assert (ada.email, ada.phone, ada.message_id) == ("Ada@example.test", "+447700900123", "ring")
    assert json.loads(ada.attributes) == {"firstName": "Ada", "tags": ["a", {"b": None}]}


def test_a_campaign_with_many_mistakes_reports_all_of_them() -> None:
    found = problems(
        {
            "name": "Spring\r\noffer",
            "phases": ["launch", "lunch"],
            "audience": {
                "recipients": [
                    {"id": "a|b"},
                    {"id": "same", "email": 5},
                    {"id": "same"},
                    {"email": "a@example.test"},
                    {"id": "x", "attributes": []},
                    {"id": "y", "message": "nowhere"},
                    "nobody",
                    {"id": "z", "nickname": "Z"},
                ]
            },
            "messages": [
                {"id": "a", "channel": "fax", "submissionTarget": "t", "body": "x"},
                {"id": "a", "channel": "email", "submissionTarget": "t|u", "body": "Hi {{"},
                {"id": "b", "channel": "sms", "body": "", "scriptVersion": "1"},
                {
                    "id": "c",
                    "channel": "voice",
                    "submissionTarget": "t",
                    "body": "\x00",
                    "scriptVersion": "",
                },
            ],
            "scheduledFor": "2026-12-01T09:00:00",
            "batchSize": True,
            "requireApproval": "yes",
            "colour": "blue",
        }
    )
    assert found.keys() == {
        "name",
        "phases[1]",
        "audience.recipients[0].id",
        "audience.recipients[1].email",
        "audience.recipients[2].id",
        "audience.recipients[3].id",
        "audience.recipients[4].attributes",
        "audience.recipients[5].message",
        "audience.recipients[6]",
        "audience.recipients[7].nickname",
        "messages[0].channel",
        "messages[1].id",
        "messages[1].submissionTarget",
        "messages[1].subject",
        "messages[1].body",
        "messages[2].submissionTarget",
        "messages[2].body",
        "messages[2].scriptVersion",
        "messages[3].body",
        "messages[3].scriptVersion",
        "scheduledFor",
        "batchSize",
        "requireApproval",
        "colour",
    }
    assert found["audience.recipients[2].id"] == "is the same as that of audience.recipients[1]"
    assert found["messages[1].id"] == "is the same as messages[0].id"
    assert found["messages[1].body"] == "is not a template: line 1: unexpected end"
    assert "time zone" in found["scheduledFor"]
    assert found["colour"] == "is not a known field"


def test_two_calls_that_share_a_scripts_version_are_refused_by_their_names() -> None:
    """B2: their keys would be the same, so nobody would get the second."""
    found = problems(
        {
            "name": "calls",
            "messages": [
                MESSAGE | {"id": "monday", "channel": "voice", "scriptVersion": "v3"},
                MESSAGE | {"id": "other", "channel": "voice", "scriptVersion": "v4"},
                MESSAGE | {"id": "friday", "channel": "voice", "scriptVersion": "v3"},
            ],
        }
    )
    assert found.keys() == {"messages[2].scriptVersion"}
    assert "'monday' and 'friday'" in found["messages[2].scriptVersion"]


def test_a_call_whose_script_has_no_version_is_identified_by_its_asset() -> None:
    """B2: the asset that a message becomes is a version already."""
    document = parse(
        {
            "name": "calls",
            "messages": [MESSAGE | {"id": each, "channel": "voice"} for each in ("one", "two")],
        }
    )
    assert [each.script_version for each in document.definition.messages] == [None, None]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"phases": []}, "phases"),
        ({"phases": ["report"]}, "phases"),
        ({"phases": ["launch", "launch"]}, "phases"),
        ({"phases": "launch"}, "phases"),
        ({"messages": []}, "messages"),
        ({"messages": [MESSAGE | {"id": str(n)} for n in range(51)]}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"audience": {}}, "audience.source"),
        ({"audience": {"recipients": [], "source": "a.csv"}}, "audience.source"),
        ({"audience": {"source": "a.csv"}}, "audience.source"),
        ({"audience": {"recipients": {}}}, "audience.recipients"),
        ({"audience": None}, "audience"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name": None}, "name"),
        ({"batchSize": 0}, "batchSize"),
        ({"batchSize": 10_001}, "batchSize"),
        ({"batchSize": 1.0}, "batchSize"),
        ({"scheduledFor": "tomorrow"}, "scheduledFor"),
        ({"scheduledFor": {}}, "scheduledFor.local"),
        ({"scheduledFor": {"local": "2026-12-01T09:00:00Z"}}, "scheduledFor.local"),
        ({"scheduledFor": {"local": "2026-02-30T09:00"}}, "scheduledFor.local"),
        (
            {"scheduledFor": {"local": "2026-12-01T09:00", "fallbackZone": "No/Where"}},
            "scheduledFor.fallbackZone",
        ),
        ({"scheduledFor": 1796115600}, "scheduledFor"),
        ({"scheduledFor": "2026-02-30T00:00:00Z"}, "scheduledFor"),
        ({"scheduledFor": "0001-01-01T00:00:00+10:00"}, "scheduledFor"),
        ({"require_approval": True}, "require_approval"),
        ({"retryPolicy": {"report": {"maxAttempts": 2}}}, "retryPolicy"),
        ({"retryPolicy": {"launch": {"maxAttempts": 0}}}, "retryPolicy.launch.maxAttempts"),
        ({"retryPolicy": {"launch": {"maxAttempts": 11}}}, "retryPolicy.launch.maxAttempts"),
    ],
)
def test_a_mistake_is_found_where_it_is(change: dict[str, object], path: str) -> None:
    assert problems(CAMPAIGN | change).keys() == {path}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"channel": "email"}, "subject"),
        ({"channel": "push"}, "subject"),
        ({"channel": "email", "subject": "a\nb"}, "subject"),
        ({"channel": "email", "subject": "{{"}, "subject"),
        ({"channel": "email", "subject": "x" * 999}, "subject"),
        ({"channel": "voice", "scriptVersion": "a|b"}, "scriptVersion"),
        ({"channel": 7}, "channel"),
        ({"id": "a|b"}, "id"),
        ({"id": "a\x00"}, "id"),
        ({"id": ["a"]}, "id"),
        ({"submissionTarget": "a\rb"}, "submissionTarget"),
        ({"body": "x" * 262_145}, "body"),
        ({"body": "\ud800"}, "body"),
        ({"body": 5}, "body"),
    ],
)
def test_a_mistake_in_a_message_is_found(fields: dict[str, object], path: str) -> None:
    assert problems(with_message(**fields)).keys() == {f"messages[0].{path}"}


def nested(levels: int) -> object:
    value: object = "leaf"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": ""}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"id": "\udfff"}, "id"),
        ({"id": 7}, "id"),
        ({"phone": ["+447700900123"]}, "phone"),
        ({"pushToken": False}, "pushToken"),
        ({"message": ["offer"]}, "message"),
        ({"attributes": "Ada"}, "attributes"),
        ({"attributes": 0}, "attributes"),
        ({"attributes": {"a": "\ud800"}}, "attributes"),
        ({"attributes": {"a": "\x00"}}, "attributes"),
        ({"attributes": {"a": "x" * 65_536}}, "attributes"),
        ({"attributes": {"a": nested(40)}}, "attributes"),
    ],
)
def test_a_mistake_in_a_recipient_is_found(fields: dict[str, object], path: str) -> None:
    found = problems(with_recipients({"id": "fine"}, {"id": "lead-1"} | fields))
    assert found.keys() == {f"audience.recipients[1].{path}"}


def test_a_bad_address_is_flagged_and_is_not_a_problem() -> None:
    document = parse(with_recipients({"id": "a", "email": "not an address", "phone": "0123"}))
    (recipient,) = document.recipients()
    assert recipient.invalid == AddressKind.EMAIL | AddressKind.PHONE


def test_a_recipient_may_have_null_where_nothing_is_known() -> None:
    fields = dict.fromkeys(("email", "phone", "pushToken", "attributes", "message"))
    (recipient,) = parse(with_recipients({"id": "ä b"} | fields)).recipients()
    assert (recipient.id, recipient.attributes, recipient.message_id) == ("ä b", "{}", None)


def test_attributes_keep_a_backslash_that_only_looks_like_nul() -> None:
    (recipient,) = parse(with_recipients({"id": "a", "attributes": {"a": "\\u0000"}})).recipients()
    assert json.loads(recipient.attributes) == {"a": "\\u0000"}


def test_more_problems_than_can_be_shown_are_counted() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(with_recipients(*[{}] * (PROBLEMS_SHOWN_MAX + 23)))
    assert len(caught.value.problems) == PROBLEMS_SHOWN_MAX
    assert "123 problems" in caught.value.message
    assert "23 more" in caught.value.message


def test_a_json_mistake_is_reported_with_its_line_and_column() -> None:
    assert list(problems(b'{\n  "name": "a",\n  oops}')) == ["line 3, column 3"]
    assert list(problems(b'{\n"name": "\xff"}')) == ["line 2"]


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"[]", b"3", b'"text"', b"{", b"{}", b"\xef\xbb\xbf", b"\x00",
        b'{"name": NaN}', b'{"name": -Infinity}', b'{"batchSize": 1e999}',
        b'{"batchSize": ' + b"9" * 10_000 + b"}", b"[" * 100_000, b'{"a":' * 100_000,
        b'{"name": "\\ud800"}', "{}".encode("utf-16"),
    ],
)  # fmt: skip
def test_a_document_that_is_not_a_campaign_is_refused(raw: bytes) -> None:
    problems(raw)


def test_a_field_given_twice_is_refused() -> None:
    raw = json.dumps(CAMPAIGN).replace('"name"', '"name": "another", "name"').encode()
    assert problems(raw) == {"": "the field 'name' is given twice in one object"}


def test_a_byte_order_mark_is_tolerated() -> None:
    assert parse(b"\xef\xbb\xbf" + json.dumps(CAMPAIGN).encode()).definition.name == "Spring offer"


def test_a_source_is_read_beside_the_campaign(tmp_path: Path) -> None:
    (tmp_path / "leads.csv").write_text("id,phone,message\na,+447700900123,offer\n")
    document = parse(CAMPAIGN | {"audience": {"source": "leads.csv"}}, tmp_path)
    for _ in range(2):
        assert [recipient.id for recipient in document.recipients()] == ["a"]


@pytest.mark.parametrize(
    ("source", "message"), [("gone.csv", "there is no file"), ("leads.xlsx", ".csv")]
)
def test_a_source_that_cannot_be_read_is_a_problem(
    tmp_path: Path, source: str, message: str
) -> None:
    found = problems(CAMPAIGN | {"audience": {"source": source}}, tmp_path)
    assert message in found["audience.source"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
paths: list[tuple[str | int, ...]] = [
    ("name",), ("phases",), ("phases", 0), ("audience",), ("audience", "recipients"),
    ("audience", "recipients", 0), ("audience", "recipients", 0, "id"),
    ("audience", "recipients", 0, "attributes"), ("audience", "recipients", 0, "message"),
    ("audience", "source"), ("messages",), ("messages", 0), ("messages", 0, "id"),
    ("messages", 0, "channel"), ("messages", 0, "subject"), ("messages", 0, "body"),
    ("scheduledFor",), ("batchSize",), ("requireApproval",),
]  # fmt: skip


@given(st.binary())
def test_any_bytes_are_a_campaign_or_a_list_of_problems(raw: bytes) -> None:
    with suppress(InvalidInput):
        parse(raw)


@given(st.sampled_from(paths), json_values)
def test_any_value_in_any_place_is_accepted_or_a_problem(
    path: tuple[str | int, ...], value: object
) -> None:
    document = json.loads(json.dumps(CAMPAIGN | {"phases": ["launch"]}))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with suppress(InvalidInput):
        parse(document)


def test_bodies_that_are_too_long_together_are_refused_before_any_is_compiled() -> None:
    """X5: fifty templates of 225 KB held SQLite's only writer for a quarter of a second."""
    messages = [{**MESSAGE, "id": f"m{number}", "body": "x" * 250_000} for number in range(9)]
    compiled: list[str] = []

    def noted(source: str) -> None:
        compiled.append(source)

    raw = json.dumps(CAMPAIGN | {"messages": messages}).encode()
    with pytest.raises(InvalidInput) as refused:
        parse_campaign(raw, check_template=noted, source_root=None)
    (problem,) = refused.value.problems
    assert (problem.path, "split the campaign" in problem.message) == ("messages", True)
    assert compiled == []

"""Domain events as they are written: what is taken, and every problem of what is not."""

import inspect
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from outrider import transactional
from outrider.bootstrap import Outrider
from outrider.documents.emission import EXAMPLE, parse_emission, read_emission
from outrider.domain.emissions import EVENT_DEPTH_MAX, event_texts
from outrider.domain.errors import InvalidInput


def test_the_example_is_an_event() -> None:
    emission = parse_emission(json.dumps(EXAMPLE).encode())
    assert (emission.event_id, emission.trigger) == ("quote-4711-sent", "quote_sent")
    assert emission.occurred_at == datetime(2026, 12, 1, 9, tzinfo=UTC)
    assert emission.subject["lead"]["email"] == "ada@example.test"
    assert event_texts(emission) == event_texts(read_emission({**EXAMPLE}))


def test_a_time_in_another_zone_is_the_same_and_so_is_the_event() -> None:
    there = read_emission({**EXAMPLE, "occurredAt": "2026-12-01T10:00:00+01:00"})
    assert event_texts(there).fingerprint == event_texts(read_emission(EXAMPLE)).fingerprint


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"eventId": 7}, "eventId"),
        ({"eventId": ""}, "eventId"),
        ({"eventId": "x" * 201}, "eventId"),
        ({"trigger": "Quote sent"}, "trigger"),
        ({"occurredAt": "yesterday"}, "occurredAt"),
        ({"occurredAt": "2026-12-01T09:00:00"}, "occurredAt"),
        ({"occurredAt": "9999-12-31T23:59:59-01:00"}, "occurredAt"),
        ({"occurredAt": 1}, "occurredAt"),
        ({"subject": []}, "subject"),
        ({"subject": {"lead": "ada@example.test"}}, "subject.lead"),
        ({"variables": "none"}, "variables"),
        ({"audience": "lead"}, "audience"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_emission({**EXAMPLE, **changes})
    assert [problem.path for problem in refused.value.problems] == [path]


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_emission({"variables": 1, "more": 2})
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert found.keys() == {"eventId", "trigger", "variables", "more"}
    assert (found["eventId"], found["more"]) == ("is required", "is not a known field")


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"[]", b"{", b'{"eventId": "a", "eventId": "b"}', b"\xff", b'{"a": NaN}'],
)
def test_a_value_that_is_not_a_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_emission(raw)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"inside": value}
    return value


def test_control_characters_and_depth_are_refused_with_their_place() -> None:
    for changes, path in (
        ({"eventId": "a\u0007b"}, "eventId"),
        ({"variables": {"x": "a\u0000b"}}, "variables"),
        ({"variables": nested(EVENT_DEPTH_MAX + 1)}, "variables"),
        ({"variables": {"x": "y" * 300_000}}, "variables"),
    ):
        with pytest.raises(InvalidInput) as refused:
            event_texts(read_emission({**EXAMPLE, **changes}))
        assert [problem.path for problem in refused.value.problems] == [path]
    assert event_texts(read_emission({**EXAMPLE, "variables": nested(EVENT_DEPTH_MAX)}))
    assert event_texts(read_emission({**EXAMPLE, "variables": {"x": "\\u0000"}}))


def test_what_programs_import_stays_unchanged() -> None:
    assert transactional.__all__ == ["Emission", "emit_in_postgres", "emit_in_sqlite"]
    inside = ["connection", "emission", "scope", "trace_parent"]
    for function in (transactional.emit_in_postgres, transactional.emit_in_sqlite):
        assert list(inspect.signature(function).parameters) == inside
    parameters = inspect.signature(Outrider.emit).parameters
    assert list(parameters) == [
        "self", "trigger", "event_id", "subject", "variables", "occurred_at", "scope",
    ]  # fmt: skip
    assert all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY
        for name, parameter in parameters.items()
        if name not in ("self", "trigger")
    )

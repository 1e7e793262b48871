"""The policy document: read strictly, every problem at once."""

import json
from typing import Any

import pytest

from outrider.documents.policy import parse_policy
from outrider.documents.presets import presets
from outrider.domain.errors import InvalidInput
from outrider.domain.purposes import Purpose
from outrider.domain.screen_policies import ScreenPolicies, policies_from
from outrider.domain.states import Channel

WHOLE: dict[str, Any] = {
    "timeZone": "Europe/Amsterdam",
    "quietHours": {"from": "21:00", "to": "08:00", "channels": ["sms", "voice"]},
    "sendingWindow": {"days": ["mon", "fri"], "from": "09:00", "to": "17:30"},
    "frequencyCap": {"messages": 3, "perHours": 24, "whenReached": "skip"},
}


def parsed(document: object) -> ScreenPolicies:
    return parse_policy(json.dumps(document).encode())


def problems(document: object) -> set[str]:
    with pytest.raises(InvalidInput) as refused:
        parsed(document)
    return {str(problem) for problem in refused.value.problems}


def test_an_empty_policy_holds_nothing_back() -> None:
    assert parsed({}) == ScreenPolicies()
    assert parsed({"quietHours": None}) == ScreenPolicies()


def test_a_policy_reads_as_it_was_written() -> None:
    policies = parsed(WHOLE)
    assert policies.as_document() == WHOLE
    assert policies_from(policies.as_stored()) == policies
    assert parsed(policies.as_document()) == policies


def test_a_policy_is_about_its_own_channels_only() -> None:
    policies = parsed(WHOLE)
    assert [type(each).__name__ for each in policies.hours(Channel.SMS)] == [
        "QuietHours", "SendingWindow",
    ]  # fmt: skip
    assert [type(each).__name__ for each in policies.hours(Channel.EMAIL)] == ["SendingWindow"]
    capped = parsed({"frequencyCap": {"messages": 1, "perHours": 1, "channels": ["sms"]}})
    assert capped.cap(Channel.SMS) is not None
    assert capped.cap(Channel.EMAIL) is None


def test_every_problem_is_reported_at_once() -> None:
    wrong = {
        "timeZone": "Europe/Amsterdm",
        "quietHours": {"from": "9", "to": "25:00", "until": 1},
        "sendingWindow": {"days": ["mon", "someday"], "from": "09:00", "to": "09:00"},
        "frequencyCap": {"messages": 0, "whenReached": "never", "channels": ["letter"]},
        "colour": "red",
    }
    told = problems(wrong)
    paths = {problem.split(":")[0] for problem in told}
    assert paths == {
        "timeZone", "quietHours.from", "quietHours.to", "quietHours.until",
        "sendingWindow.days[1]", "sendingWindow.to", "frequencyCap.messages",
        "frequencyCap.perHours", "frequencyCap.whenReached", "frequencyCap.channels[0]", "colour",
    }  # fmt: skip
    assert "timeZone: is not a time zone; use one such as Europe/Amsterdam" in told


def test_several_windows_are_a_list_and_each_problem_has_its_place() -> None:
    windows = [{"from": "10:00", "to": "13:00"}, {"days": ["sat"], "from": "14:00", "to": "20:00"}]
    policies = parsed({"sendingWindow": windows})
    assert [window.from_minute for window in policies.sending_windows] == [600, 840]
    assert parsed(policies.as_document()) == policies
    wrong = {"sendingWindow": [windows[0], {"days": ["never"], "from": "14:00", "to": "14:00"}]}
    paths = {problem.split(":")[0] for problem in problems(wrong)}
    assert paths == {"sendingWindow[1].days[0]", "sendingWindow[1].to"}
    assert problems({"sendingWindow": []})


def test_a_preset_is_named_and_contained() -> None:
    """Each is a data file with its source; what it does not cover is said there too."""
    policies = parsed({"presets": ["us-tcpa"], "exempt": ["order_receipt"]})
    [hours] = policies.hours(Channel.SMS)
    assert (hours.opening_minutes, hours.allows(0, 21 * 60)) == ((8 * 60,), False)
    assert policies.hours(Channel.EMAIL) == []
    assert policies_from(policies.as_stored()) == policies, "its windows are stored with it"
    assert parsed(policies.as_document()) == policies
    assert policies.exempts(Purpose("order_receipt", transactional=True))
    assert not policies.exempts(Purpose("order_receipt"))
    assert not policies.exempts(Purpose("other", transactional=True))
    assert problems({"presets": ["xx"]}) == {
        f"presets[0]: is not a preset; there are {', '.join(presets())}"
    }
    for documented in presets().values():
        assert documented.source
        assert documented.not_covered


@pytest.mark.parametrize(
    "document",
    [
        {"quietHours": {"from": "00:00", "to": "24:00"}},
        {
            "quietHours": {"from": "08:00", "to": "20:00", "channels": ["sms"]},
            "sendingWindow": {"from": "09:00", "to": "17:00"},
        },
    ],
)
def test_hours_that_leave_no_time_are_refused(document: dict[str, Any]) -> None:
    assert "quiet hours and sending windows leave no time to send sms" in problems(document)


def test_a_whole_day_may_be_written_out() -> None:
    window = {"days": ["sat"], "from": "00:00", "to": "24:00"}
    assert parsed({"sendingWindow": window}).as_document()["sendingWindow"] == window


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b'{"timeZone": "UTC", "timeZone": "UTC"}', b" " * 70_000]
)
def test_an_invalid_policy_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_policy(raw)

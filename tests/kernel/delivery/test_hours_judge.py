"""The hours judge: closed places are judged once, and again when they open."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from outrider.documents.phone_zones import phone_zones
from outrider.domain.screen_policies import QuietHours, ScreenPolicies, SendingHours, WaitsFor
from outrider.domain.sending_hours import Wait, wait_in_all
from outrider.domain.states import Channel
from outrider.kernel.delivery.hours_judge import HoursJudge, Zones

NIGHT = datetime(2026, 1, 5, 3, tzinfo=UTC)
MORNING = datetime(2026, 1, 5, 8, tzinfo=UTC)
POLICIES = ScreenPolicies(
    "Europe/London", QuietHours(21 * 60, 8 * 60, frozenset({Channel.SMS, Channel.VOICE}))
)


def test_a_closed_place_opens_by_itself_and_closes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[datetime] = []

    def counted(hours: Sequence[SendingHours], zones: Zones, now: datetime) -> Wait | None:
        asked.append(now)
        return wait_in_all(hours, zones, now)

    monkeypatch.setattr("outrider.kernel.delivery.hours_judge.wait_in_all", counted)
    judge = HoursJudge(POLICIES, phone_zones, lambda _: None)
    london = judge.zones(None, "a@example.test")
    for minute in range(3):
        found = judge.wait(Channel.SMS, london, NIGHT + timedelta(minutes=minute))
        assert found == (MORNING, WaitsFor.QUIET_HOURS)
    assert len(asked) == 1, "what is closed stays closed until it opens"
    assert judge.wait(Channel.SMS, london, MORNING) is None
    assert judge.wait(Channel.SMS, london, MORNING + timedelta(hours=13)) is not None
    assert judge.wait(Channel.EMAIL, london, NIGHT) is None


def test_unknown_zones_are_reported() -> None:
    unknown: list[str] = []
    judge = HoursJudge(POLICIES, phone_zones, unknown.append)
    assert judge.zones("No/Where", None) == judge.zones(None, None)
    assert unknown == ["No/Where"]

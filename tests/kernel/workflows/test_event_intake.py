"""Workflows and what they are given: whatever it is, it is told or recorded, and nobody is hurt."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.domain.emissions import EVENT_MAX_BYTES, Emission
from outrider.domain.errors import IdempotencyConflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.domain.workflows import Delay
from outrider.domain.written_workflows import WrittenStep
from outrider.kernel.transactions import suppressions
from outrider.kernel.workflows import event_planner as route_planner
from tests.support.whole_runs import SteppedClock, working
from tests.support.workflows import LEAD, TO_LEAD, Office, email, office

BILLION = "{% for a in range(100000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}"
HUGE = "{% set x = 'xxxxxxxx' %}" + "{% set x = x ~ x %}" * 30 + "{{ x | length }}"


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Office]:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        yield made


async def test_an_unknown_trigger_is_refused_and_named(small: Office) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small.emit("quote_snet")
    (problem,) = refused.value.problems
    assert problem.path == "trigger"
    assert "quote_sent" in problem.message


async def test_a_rule_makes_its_trigger_known(small: Office) -> None:
    await small.rule("order.shipped", Channel.EMAIL, email())
    (route,) = await small.routed("order.shipped")
    assert route["decision"] == "steps"


@pytest.mark.parametrize(
    ("emission", "path"),
    [
        (Emission("", "quote_sent"), "eventId"),
        (Emission("a" * 201, "quote_sent"), "eventId"),
        (Emission("a\r\nb", "quote_sent"), "eventId"),
        (Emission("..", "quote_sent"), "eventId"),
        (Emission("a", "Quote Sent"), "trigger"),
        (Emission("a", "quote_sent", {"lead": {"x": float("nan")}}), "subject"),
        (Emission("a", "quote_sent", {}, {"x": "\ud800"}), "variables"),
        (Emission("a", "quote_sent", {}, {"x": object()}), "variables"),
        (Emission("a", "quote_sent", {}, {"x": "x" * EVENT_MAX_BYTES}), "variables"),
    ],
)
async def test_an_event_that_cannot_be_kept_is_refused_with_its_place(
    small: Office, emission: Emission, path: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small.outrider.event_intake.emit(DEFAULT_SCOPE, emission)
    assert [problem.path for problem in refused.value.problems] == [path]


async def test_an_event_that_is_nested_too_deeply_is_refused(small: Office) -> None:
    deep: dict[str, object] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    with pytest.raises(InvalidInput, match="was refused"):
        await small.emit("quote_sent", subject=deep)


async def test_the_same_event_id_with_different_content_is_a_conflict(small: Office) -> None:
    await small.emit("quote_sent", event_id="q-1", quote=1)
    with pytest.raises(IdempotencyConflict):
        await small.emit("quote_sent", event_id="q-1", quote=2)


@pytest.mark.parametrize("bomb", [BILLION, HUGE], ids=["loops", "grows"])
async def test_a_template_bomb_fails_its_own_event_and_no_other(small: Office, bomb: str) -> None:
    await small.rule("bomb", Channel.EMAIL, email(1, bomb))
    await small.rule("lead_welcome", Channel.EMAIL, email(1, "fine"))
    await small.emit("bomb", event_id="bomb")
    await small.emit("lead_welcome", event_id="good")
    await small.outrider.event_router.route_due()
    bombed, routes = await small.event("bomb")
    assert bombed.status == "failed"
    assert routes[0]["decision"] == "failed"
    assert (await small.event("good"))[0].status == "routed"
    assert [row.payload["body"] for row in await small.delivered()] == ["fine"]


@pytest.mark.parametrize(
    ("channel", "lead"),
    [
        (Channel.EMAIL, {"email": "ada@example.test>\r\nRCPT TO:<eve@example.test"}),
        (Channel.EMAIL, {"email": "ada@example.test\r\nBcc: eve@example.test"}),
        (Channel.SMS, {"phone": "call me"}),
        (Channel.SMS, {"phone": "07700 900123"}),
    ],
)
async def test_an_address_that_is_none_is_recorded_and_never_called(
    small: Office, channel: Channel, lead: dict[str, str]
) -> None:
    subject = "News" if channel is Channel.EMAIL else None
    step = WrittenStep(1, channel, "Hi", subject=subject, recipients=TO_LEAD)
    await small.rule("lead_welcome", channel, step)
    await small.routed("lead_welcome", subject={"lead": lead})
    row = await small.notification()
    assert (row.status, row.last_error) == ("failed", "invalid_address")
    assert "\r" not in (row.recipient or "")
    await small.delivered()
    assert small.sandbox.requests == 0


async def test_a_subject_that_would_break_out_of_its_header_is_refused(small: Office) -> None:
    await small.rule("quote_rejected", Channel.EMAIL, email(1, subject="{{ title }}"))
    (route,) = await small.routed("quote_rejected", title="Hi\r\nBcc: eve@example.test")
    assert route["decision"] == "failed"
    assert await small.notifications() == []


@pytest.mark.parametrize(
    "title", ["1\u00a0200,00\u202f\u20ac", "soft\u00adhyphen", "\U0001f468\u200d\U0001f469"]
)
async def test_a_subject_of_unusual_characters_is_sent(small: Office, title: str) -> None:
    await small.rule("quote_rejected", Channel.EMAIL, email(1, subject="{{ title }}"))
    await small.routed("quote_rejected", title=title)
    assert [row.status for row in await small.delivered()] == ["succeeded"]


@pytest.mark.parametrize(
    ("body", "html"),
    [
        ("{{ lead.firstName }} said no", False),
        ("<p>{{ lead.firstName }}</p>", True),
        ("{# a note #}{% if true %}<p>{{ lead.firstName }}</p>{% endif %}", True),
    ],
)
async def test_a_leads_name_never_becomes_markup(small: Office, body: str, html: bool) -> None:
    await small.rule("quote_rejected", Channel.EMAIL, email(1, body))
    name = "<form action=https://evil.test>"
    await small.routed("quote_rejected", subject={"lead": {**LEAD, "firstName": name}})
    payload = (await small.notification()).payload
    assert payload.get("html", False) is html
    assert (name in payload["body"]) is not html


async def test_an_event_that_would_make_too_many_messages_is_failed_with_the_number(
    small: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_planner, "EVENT_ITEMS_MAX", 2)
    await small.rule("lead_welcome", Channel.EMAIL, email(1), email(2), email(3))
    await small.routed("lead_welcome", event_id="e")
    stored, _ = await small.event("e")
    assert (stored.status, stored.error) == (
        "failed",
        "it would create 3 messages; the maximum is 2",
    )
    assert await small.notifications() == []


async def test_a_recipient_who_opts_out_after_the_event_gets_no_message(
    database: str, tmp_path: Path
) -> None:
    async with office(database, tmp_path) as made:
        await made.rule("lead_welcome", Channel.EMAIL, email())
        await made.routed("lead_welcome")
        await made.outrider.store.write(
            suppressions.suppress(
                DEFAULT_SCOPE,
                "email",
                ["ADA@example.test"],
                OptOut("unsubscribed"),
                made.clock.now(),
            )
        )
        (row,) = await made.delivered()
        assert (row.status, row.last_error, row.attempts) == ("failed", "suppressed", 0)
        assert made.sandbox.requests == 0


async def test_a_clock_that_jumps_back_two_hours_loses_nothing_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path, clock=clock) as made:
        await made.rule("lead_welcome", Channel.EMAIL, email(1), email(2, timing=Delay(60)))
        await made.emit("lead_welcome", event_id="before")
        clock.advance(-7_200)
        await made.emit("lead_welcome", event_id="after", subject={"lead": LEAD})
        async with working(made.outrider):
            await made.until(lambda rows: [row.status for row in rows].count("succeeded") >= 1)
            await clock.step(7_300)
            await made.until(lambda rows: len(rows) == 4)
            await clock.step(100)
            await made.until(lambda rows: {row.status for row in rows} == {"succeeded"})
    assert made.sandbox.received()["duplicates"] == 0
    assert made.sandbox.requests == 4

"""`outrider person` and `outrider search`: here, and asked of a server."""

import pytest

from outrider.domain.states import Channel
from outrider.limits.api import ApiLimits
from tests.cli.test_cli_events import Invoke, answer, desk, here, invoked, text  # noqa: F401
from tests.support.api_inside import serving
from tests.support.workflows import Office, email

ADA = '{"id": "lead-1", "email": "ada@example.test"}'


async def test_a_person_is_shown_and_found_here_and_by_a_server(
    desk: Office,  # noqa: F811
    here: Invoke,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await desk.rule("quote_rejected", Channel.EMAIL, email(body="Sorry"))
    emitted = ("event", "emit", "--trigger", "quote_rejected", "--event-id", "q-1", "--lead", ADA)
    text(await here(*emitted))
    await desk.outrider.event_router.route_due()
    text(await here("suppression", "add", "email", "Ada@example.test"))
    story = answer(await here("person", "ADA@Example.test", "--json"))
    assert [each["kind"] for each in story["items"]] == ["suppression", "item", "event"]
    shown = text(await here("person", "lead-1"))
    assert "lead-1 (recipient)" in shown
    assert "email message" in shown
    assert "quote_rejected" in shown
    first = text(await here("person", "ada@example.test", "--limit", "1"))
    assert "opt-out" in first
    assert "next: outrider person ada@example.test --after" in first
    assert "nothing is known about bo@example.test" in text(await here("person", "bo@example.test"))
    assert "nothing matches bo" in text(await here("search", "bo"))
    assert "outrider event show q-1" in text(await here("search", "q-1"))
    refused = await here("search", " ")
    assert (refused.exit_code, "nothing to search for" in refused.stderr) == (1, True)

    async with serving(desk.outrider, ApiLimits()) as inside:
        monkeypatch.setenv("OUTRIDER_KEY", inside.key)
        server = ("--server", inside.url.removesuffix("/api/v2"))
        assert answer(await invoked(*server, "person", "ada@example.test", "--json")) == {
            **story, "address": "ada@example.test",
        }  # fmt: skip
        found = answer(await invoked(*server, "search", "lead-1", "--json"))
        assert [(each["kind"], each["id"]) for each in found["items"]] == [("person", "lead-1")]

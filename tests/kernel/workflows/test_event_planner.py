"""The event planner: a rule's steps, a legacy sender, or nobody because the rule is disabled."""

from outrider.domain.states import Channel
from tests.support.workflows import Office, email, whatsapp


async def test_each_channel_is_decided_by_its_own_rule(an_office: Office) -> None:
    await an_office.rule("visit_booked", Channel.EMAIL, email())
    await an_office.rule("visit_booked", Channel.WHATSAPP, whatsapp(), enabled=False)
    routes = await an_office.routed("visit_booked")
    decided = {route["channel"]: route["decision"] for route in routes}
    assert decided == {"email": "steps", "whatsapp": "suppressed"}
    assert [each.kind for each in await an_office.notifications()] == ["email"]


async def test_a_route_that_fails_is_planned_apart_from_the_others(an_office: Office) -> None:
    await an_office.rule("visit_booked", Channel.EMAIL, email(body="{{ missing.field }}"))
    await an_office.rule("visit_booked", Channel.WHATSAPP, whatsapp())
    routes = await an_office.routed("visit_booked")
    decided = {route["channel"]: route["decision"] for route in routes}
    assert decided == {"email": "failed", "whatsapp": "steps"}
    assert [each.kind for each in await an_office.notifications()] == ["whatsapp"]

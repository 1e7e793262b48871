"""A domain event as its sender sees it: what it said, what was decided, what followed."""

import msgspec

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.kernel.workflows.event_documents import event_document, whole_event_document
from tests.support.workflows import LEAD, Office, email


async def test_an_event_shows_its_routes_and_its_messages(an_office: Office) -> None:
    await an_office.rule("quote_sent", Channel.EMAIL, email())
    intake = an_office.outrider.event_intake
    stored, _ = await an_office.emit("quote_sent", price=3)
    before = msgspec.json.decode(msgspec.json.encode(event_document(stored)))
    assert (before["status"], before["routes"]) == ("received", [])
    await an_office.outrider.event_router.route_due()
    event, items = await intake.event(DEFAULT_SCOPE, stored.event_id)
    contents = await intake.contents(DEFAULT_SCOPE, stored.event_id)
    whole = msgspec.json.decode(msgspec.json.encode(whole_event_document(event, contents, items)))
    assert whole["status"] == "routed"
    assert [route["decision"] for route in whole["routes"]] == ["steps"]
    assert (whole["subject"]["lead"], whole["variables"]) == (LEAD, {"price": 3})
    (item,) = whole["items"]
    assert (item["channel"], item["status"], item["attempts"]) == ("email", "pending", 0)

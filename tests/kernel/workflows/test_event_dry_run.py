"""The event dry run: what would follow from an event now, and nothing of it happens."""

from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from tests.support.raw_sql import raw_sql
from tests.support.workflows import LEAD, Office, email


async def test_a_dry_run_shows_the_message_and_writes_nothing(an_office: Office) -> None:
    await an_office.rule("visit_booked", Channel.EMAIL, email())
    emission = Emission("event-1", "visit_booked", {"lead": LEAD}, {})
    found = await an_office.outrider.event_rehearser.rehearse(DEFAULT_SCOPE, emission)
    (message,) = found.messages
    assert message.letter is not None
    assert message.letter.body == "Hello Ada"
    assert (message.skipped_because, found.problem) == (None, None)
    async with raw_sql(an_office.database) as raw:
        [(events,)] = await raw.run("SELECT count(*) FROM domain_events")
    assert (events, await an_office.notifications()) == (0, [])


async def test_a_dry_run_says_why_nothing_would_follow(an_office: Office) -> None:
    await an_office.rule("visit_booked", Channel.EMAIL, email(body="{{ missing.field }}"))
    emission = Emission("event-1", "visit_booked", {"lead": LEAD}, {})
    found = await an_office.outrider.event_rehearser.rehearse(DEFAULT_SCOPE, emission)
    assert found.messages == []
    assert found.problem is not None

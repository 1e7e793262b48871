"""A page of a person's story, as the server and the command line show it."""

from outrider.api import cursors
from outrider.api.models.people import PersonAnswer
from outrider.bootstrap import Outrider
from outrider.domain.ids import Scope
from outrider.kernel.transactions.person_stories import Position


async def person_page(
    outrider: Outrider, scope: Scope, address: str, limit: int, after: str | None
) -> PersonAnswer:
    before = Position(*cursors.decode(after, 3)) if after is not None else None
    story = await outrider.person_reader.story(scope, address, limit, before)
    more = story.has_more and story.traces
    return PersonAnswer.of(story, cursors.encode(*story.traces[-1].position) if more else None)

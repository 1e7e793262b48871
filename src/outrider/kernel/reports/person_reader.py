"""The person reader: everything that is known of one address or recipient id, newest first."""

from outrider.domain.ids import Scope
from outrider.domain.people import readings
from outrider.kernel.transactions import person_stories
from outrider.kernel.transactions.person_stories import Position, Story
from outrider.ports.store import Store


class PersonReader:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def story(
        self, scope: Scope, given: str, most: int, before: Position | None = None
    ) -> Story:
        """A page of at most `most` traces before that position."""
        return await self._store.read(person_stories.story(scope, readings(given), most, before))

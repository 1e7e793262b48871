"""The searcher: one text, and whatever it is the address, id or name of."""

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import Scope
from outrider.kernel.transactions import searching
from outrider.kernel.transactions.searching import Hit
from outrider.limits.people import SEARCH_MAX_CHARACTERS
from outrider.ports.store import Store


class Searcher:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, scope: Scope, given: str) -> list[Hit]:
        words = given.strip()
        if not words or len(words) > SEARCH_MAX_CHARACTERS or not words.isprintable():
            raise InvalidInput(
                "there is nothing to search for",
                [Problem("q", f"should be 1 to {SEARCH_MAX_CHARACTERS} printable characters")],
            )
        return await self._store.read(searching.find(scope, words))

"""A store that counts how often it is asked, for roles that promise to remember."""

from typing import Any

from outrider.ports.store import Store, Transaction


class CountedStore:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.writes = 0

    async def read(self, script: Transaction[Any]) -> Any:
        self.reads += 1
        return await self._store.read(script)

    async def write(self, script: Transaction[Any]) -> Any:
        self.writes += 1
        return await self._store.write(script)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

"""A deliberately slow store: writes of the named scripts are delayed, or never finish."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import GeneratorType

from outrider.domain.restored_database import DatabasePlace
from outrider.ports.store import Announced, Result, Store, Transaction


def script_name(transaction: Transaction[Result]) -> str:
    """The name of the script's function, such as `settle_job`."""
    assert isinstance(transaction, GeneratorType)
    return str(transaction.__name__)


class SlowStore:
    """`delays`: seconds by the name of the script, such as `settle_job`; they may be changed
    later."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.delays: dict[str, float] = {}
        self.delayed: list[str] = []

    @property
    def scheme(self) -> str:
        return self._inner.scheme

    async def write(self, transaction: Transaction[Result]) -> Result:
        name = script_name(transaction)
        if seconds := self.delays.get(name):
            self.delayed.append(name)
            await asyncio.sleep(seconds)
        return await self._inner.write(transaction)

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await self._inner.read(transaction)

    async def migrate(self) -> Sequence[str]:
        return await self._inner.migrate()

    async def verify_schema(self) -> None:
        await self._inner.verify_schema()

    async def ping(self) -> None:
        await self._inner.ping()

    async def place(self) -> DatabasePlace:
        return await self._inner.place()

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        self._inner.stay_at(place, moved)

    def abandon(self) -> None:
        self._inner.abandon()

    def announcements(self, of: Announced) -> AsyncIterator[None]:
        return self._inner.announcements(of)

    def give_way(self, while_true: Callable[[], bool]) -> None:
        self._inner.give_way(while_true)

    async def forget_removed(self) -> bool:
        return await self._inner.forget_removed()

    async def close(self) -> None:
        await self._inner.close()

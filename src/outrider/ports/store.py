"""The store port: a transaction is a script of named statements, and a store runs it.

The kernel writes each transaction once, as a generator that yields `Statement`s and is sent their
rows back. A store knows the SQL behind each name and how to run a script atomically.
"""

from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from outrider.domain.restored_database import DatabasePlace

Result = TypeVar("Result")
Row = Sequence[Any]
Rows = Sequence[Row]
Window = Mapping[str, Sequence[object]]
"""Columns of equal length: one statement writes all of a window's items at once."""


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    params: Mapping[str, object]
    window: Window | None = None
    alone: bool = False


Transaction = Generator[Statement, Rows, Result]


def ask(name: str, window: Window | None = None, /, **params: object) -> Transaction[Rows]:
    """Run one named statement inside a script: `rows = yield from ask("claim_jobs", now=now)`."""
    return (yield Statement(name, params, window))


def ask_alone(name: str, window: Window | None = None, /, **params: object) -> Transaction[Rows]:
    """The only statement of its script. A store may then skip the transaction's overhead."""
    return (yield Statement(name, params, window, alone=True))


class Announced(StrEnum):
    """What a database may announce: new events of campaigns, jobs, domain events and receipts."""

    EVENTS = "outrider_campaign_events"
    WORK = "outrider_work"
    DOMAIN_EVENTS = "outrider_domain_events"
    RECEIPTS = "outrider_receipts"


class Store(Protocol):
    """All reads and writes of the kernel go through here, a whole transaction at a time."""

    @property
    def scheme(self) -> str: ...

    async def write(self, transaction: Transaction[Result]) -> Result:
        """Run the script in one durable transaction: all of it or nothing."""
        ...

    async def read(self, transaction: Transaction[Result]) -> Result:
        """Run the script on one consistent snapshot that sees every earlier `write`."""
        ...

    async def migrate(self) -> Sequence[str]:
        """Bring the schema up to date; the names of the migrations that were applied."""
        ...

    async def verify_schema(self) -> None:
        """Raise SchemaMismatch unless this code can use the schema: the one it was written for, or
        a later one that only adds to it."""
        ...

    async def ping(self) -> None:
        """StoreUnavailable unless the database answers; does not wait for this store's other
        work."""
        ...

    async def place(self) -> DatabasePlace:
        """Where this database is: another one after it was restored elsewhere, or promoted."""
        ...

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        """A new connection that finds the database elsewhere, or behind where it was, runs this
        script before any other."""
        ...

    def announcements(self, of: Announced) -> AsyncIterator[None]:
        """Yields whenever there may be something new, and once at the start.

        Ends at once if the database makes no such announcements, and its readers have to poll;
        raises StoreUnavailable if the connection is lost.
        """
        ...

    def abandon(self) -> None:
        """Expect no more answers: pending and future calls raise StoreUnavailable at once."""
        ...

    def give_way(self, while_true: Callable[[], bool]) -> None:
        """Let large windows wait while this is true, if they would hold up single messages. It is
        asked often, maybe in another thread."""
        ...

    async def forget_removed(self) -> bool:
        """Make sure that removed rows cannot be read from the database's files either, as far as
        the store can; False if it has to be tried again."""
        ...

    async def close(self) -> None: ...

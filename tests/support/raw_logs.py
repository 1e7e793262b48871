"""Shorthands for tests of run logs: telling them things, looking at snapshots, and crashing."""

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime

import msgspec

from outrider.domain.ids import RunId
from outrider.domain.projection import RunSnapshot, project_run
from outrider.domain.restored_database import DatabasePlace
from outrider.domain.run_events import RunEvent, RunEventType
from outrider.domain.snapshot_documents import snapshot_from_stored, stored_document
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.run_log import Appended, EventDraft
from outrider.ports.store import Announced, Result, Store, Transaction
from outrider.testing.store_suite.workshop import NOON
from tests.support.raw_sql import Raw

MOST = 100_000
VERSION = "1"


class Crash(Exception):
    """The process died here, as far as the database can tell."""


def aborted(transaction: Transaction[Result], statements: int) -> Transaction[Result]:
    """The same script, which dies after that many statements."""
    try:
        statement = next(transaction)
        for _ in range(statements):
            statement = transaction.send((yield statement))
        raise Crash
    except StopIteration as done:
        # It was shorter than that, and dies before its commit.
        raise Crash from done
    finally:
        transaction.close()


class CrashingStore:
    """A real store whose next transactions die on request."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.write_dies_after: int | None = None
        self.read_errors: list[Exception | None] = []

    @property
    def scheme(self) -> str:
        return self.store.scheme

    async def write(self, transaction: Transaction[Result]) -> Result:
        if self.write_dies_after is not None:
            statements, self.write_dies_after = self.write_dies_after, None
            return await self.store.write(aborted(transaction, statements))
        return await self.store.write(transaction)

    async def read(self, transaction: Transaction[Result]) -> Result:
        error = self.read_errors.pop(0) if self.read_errors else None
        if error is not None:
            raise error
        return await self.store.read(transaction)

    async def migrate(self) -> list[str]:
        raise NotImplementedError

    async def verify_schema(self) -> None:
        raise NotImplementedError

    async def ping(self) -> None:
        raise NotImplementedError

    async def place(self) -> DatabasePlace:
        raise NotImplementedError

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        raise NotImplementedError

    def give_way(self, while_true: Callable[[], bool]) -> None:
        raise NotImplementedError

    async def forget_removed(self) -> bool:
        raise NotImplementedError

    def announcements(self, of: Announced) -> AsyncIterator[None]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def step(kind: str, name: str, **given: object) -> EventDraft:
    return EventDraft(RunEventType(f"Step{kind}"), name, **given)  # type: ignore[arg-type]


def of_run(kind: str, **payload: object) -> EventDraft:
    return EventDraft(RunEventType(f"Run{kind}"), payload=payload)


async def tell(
    store: Store, run_id: RunId, *drafts: EventDraft, now: datetime = NOON
) -> list[Appended]:
    return await store.write(run_log.append(run_id, VERSION, drafts, now))


async def tell_unknown(raw: Raw, run_id: RunId, *, payload: str = "{}", skip: int = 0) -> int:
    """What a later version might append, after a gap where wished; its sequence."""
    bumped = f"UPDATE campaign_runs SET last_seq = last_seq + {1 + skip} WHERE id = '{run_id}'"
    seq: int = await raw.value(f"{bumped} RETURNING last_seq")
    key = hashlib.sha256(f"{run_id}|{seq}|StepTeleported".encode()).digest()
    await raw.run(
        "INSERT INTO run_events (run_id, run_seq, type, emitter, step_id, logical_attempt,"
        " plan_version, idempotency_key, payload, occurred_at)"
        f" VALUES ('{run_id}', {seq}, 'StepTeleported', 'activity', 'a', 1, '1',"
        f" {raw.blob(key)}, '{payload}', '2026-01-01T12:00:00.000000Z')"
    )
    return seq


async def burn_numbers(raw: Raw, run_id: RunId, count: int) -> None:
    """Sequences that were taken and never used."""
    await raw.run(f"UPDATE campaign_runs SET last_seq = last_seq + {count} WHERE id = '{run_id}'")


async def events_of(store: Store, run_id: RunId) -> list[RunEvent]:
    return await store.read(run_log.events_after(run_id, 0, MOST))


async def projected(store: Store, run_id: RunId) -> RunSnapshot:
    """All of the log, folded from nothing: what every snapshot has to agree with."""
    return project_run(run_id, await events_of(store, run_id))


async def snapshots_of(raw: Raw, run_id: RunId) -> list[RunSnapshot]:
    """What is stored, oldest first; the columns agree with the document."""
    rows = await raw.run(
        "SELECT last_event_seq, status, document FROM run_snapshots"
        f" WHERE run_id = '{run_id}' ORDER BY last_event_seq"
    )
    found = [snapshot_from_stored(msgspec.json.decode(document)) for _, _, document in rows]
    assert [(each.last_event_seq, each.status) for each in found] == [
        (seq, status) for seq, status, _ in rows
    ]
    assert [stored_document(each) for each in found] == [
        msgspec.json.decode(document) for _, _, document in rows
    ]
    return found


async def watermark(raw: Raw, run_id: RunId) -> int:
    found: int = await raw.value(f"SELECT snapshot_seq FROM campaign_runs WHERE id = '{run_id}'")
    return found

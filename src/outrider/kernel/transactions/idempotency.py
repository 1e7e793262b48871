"""Idempotency records: claimed by one owner, finished or abandoned by it, pruned once expired."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from outrider.ports.idempotency import RequestKey
from outrider.ports.store import Result, Transaction, ask


class OthersRecord(NamedTuple):
    """Another owner's record under the key; without an answer it is still running."""

    fingerprint: str
    answer: str | None


def claim(
    key: RequestKey, owner: str, expires_at: datetime, prune_most: int, now: datetime
) -> Transaction[OthersRecord | None]:
    """None if the key is ours now. Each new record removes a few expired ones."""
    claimed = yield from ask(
        "claim_idempotency_key",
        **_place(key),
        fingerprint=key.fingerprint,
        owner=owner,
        expires_at=expires_at,
        now=now,
    )
    if claimed:
        yield from ask("prune_idempotency_records", most=prune_most, now=now)
        return None
    rows = yield from ask("idempotency_record", **_place(key))
    return OthersRecord(*rows[0])


def guarded(
    key: RequestKey,
    script: Transaction[Result],
    answer_of: Callable[[Result], str],
    refuse: Callable[[OthersRecord], Exception],
    owner: str,
    expires_at: datetime,
    prune_most: int,
    now: datetime,
) -> Transaction[Result]:
    """Key, script and answer in one transaction: a crash leaves all of it or nothing."""
    found = yield from claim(key, owner, expires_at, prune_most, now)
    if found is not None:
        raise refuse(found)
    result = yield from script
    yield from finish(key, owner, answer_of(result), expires_at)
    return result


def keep(
    key: RequestKey, owner: str, answer: str, expires_at: datetime, prune_most: int, now: datetime
) -> Transaction[OthersRecord | None]:
    """None if this is the key's first answer."""
    found = yield from claim(key, owner, expires_at, prune_most, now)
    if found is None:
        yield from finish(key, owner, answer, expires_at)
    return found


def renew(key: RequestKey, owner: str, expires_at: datetime) -> Transaction[None]:
    yield from ask("renew_idempotency_key", **_place(key), owner=owner, expires_at=expires_at)


def finish(key: RequestKey, owner: str, answer: str, expires_at: datetime) -> Transaction[None]:
    yield from ask(
        "finish_idempotency_key", **_place(key), owner=owner, answer=answer, expires_at=expires_at
    )


def abandon(key: RequestKey, owner: str) -> Transaction[None]:
    yield from ask("abandon_idempotency_key", **_place(key), owner=owner)


def _place(key: RequestKey) -> dict[str, object]:
    return {**key.scope._asdict(), "key": key.name}

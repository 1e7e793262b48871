"""Idempotency records: claimed by one, finished or abandoned by that one, pruned once expired."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.ports.store import Transaction, ask


class OthersRecord(NamedTuple):
    """What somebody else has under the key; without an answer they are still at it."""

    fingerprint: str
    answer: str | None


def claim(
    scope: Scope,
    key: str,
    fingerprint: str,
    owner: str,
    expires_at: datetime,
    prune_most: int,
    now: datetime,
) -> Transaction[OthersRecord | None]:
    """None if the key is ours now. Each new record takes a few expired ones away."""
    place = {**scope._asdict(), "key": key}
    claimed = yield from ask(
        "claim_idempotency_key",
        **place,
        fingerprint=fingerprint,
        owner=owner,
        expires_at=expires_at,
        now=now,
    )
    if claimed:
        yield from ask("prune_idempotency_records", most=prune_most, now=now)
        return None
    rows = yield from ask("idempotency_record", **place)
    return OthersRecord(*rows[0])


def finish(
    scope: Scope, key: str, owner: str, answer: str, expires_at: datetime
) -> Transaction[None]:
    yield from ask(
        "finish_idempotency_key",
        **scope._asdict(),
        key=key,
        owner=owner,
        answer=answer,
        expires_at=expires_at,
    )


def abandon(scope: Scope, key: str, owner: str) -> Transaction[None]:
    yield from ask("abandon_idempotency_key", **scope._asdict(), key=key, owner=owner)

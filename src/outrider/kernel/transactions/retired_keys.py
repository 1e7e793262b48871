"""Keys of what was retired: recognised until their memory ends."""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.ids import IdempotencyKey, Scope
from outrider.ports.store import Transaction, Window, ask, ask_alone


def remember(keys: Sequence[tuple[str, IdempotencyKey]], forget_at: datetime) -> Transaction[None]:
    """Each with its workspace."""
    if keys:
        window: Window = {
            "workspace_id": [each[0] for each in keys],
            "key": [each[1] for each in keys],
        }
        yield from ask("remember_keys", window, forget_at=forget_at)


def known(scope: Scope, keys: Sequence[IdempotencyKey]) -> Transaction[set[IdempotencyKey]]:
    rows = yield from ask_alone("known_keys", {"key": keys}, workspace_id=scope.workspace_id)
    return {IdempotencyKey(row[0]) for row in rows}


def forget(now: datetime, most: int) -> Transaction[int]:
    return len((yield from ask_alone("forget_keys", now=now, most=most)))

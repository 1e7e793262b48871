"""Texts that are nobody's row and may quote a person: alerts, why a job failed, and dead letters.

They are looked through in windows, by id, and keep what else they say.
"""

from typing import NamedTuple

from outrider.domain.erasure import Identity
from outrider.domain.ids import Scope
from outrider.ports.store import Rows, Transaction, ask

ALERTS, JOBS, LETTERS = "alerts", "job_queue", "event_bus_dead_letters"
TABLES = (ALERTS, JOBS, LETTERS)


class ErasedTexts(NamedTuple):
    erased: int
    last: str | None
    """Of this window; None: it was the last one."""


def erase_texts(
    table: str, scope: Scope, identity: Identity, after: str, most: int
) -> Transaction[ErasedTexts]:
    """The next window of one of `TABLES`."""
    rows = yield from _read(table, scope, after, most)
    quoting = [row for row in rows if any(map(identity.is_told_in, row[1:]))]
    if quoting:
        scrubbed = [[text and identity.scrubbed(text) for text in row[1:]] for row in quoting]
        ids = [row[0] for row in quoting]
        texts, details = zip(*scrubbed, strict=True)
        if table == ALERTS:
            yield from ask("put_alert_texts", {"id": ids, "text": texts, "detail": details})
        elif table == JOBS:
            yield from ask("put_job_texts", {"id": ids, "text": texts})
        else:
            yield from ask("put_dead_letter_texts", {"id": ids, "text": texts})
    return ErasedTexts(len(quoting), rows[-1][0] if len(rows) == most else None)


def _read(table: str, scope: Scope, after: str, most: int) -> Transaction[Rows]:
    """An id, and up to two texts."""
    if table == JOBS:
        return (
            yield from ask("job_texts", workspace_id=scope.workspace_id, after=after, most=most)
        )
    if table == ALERTS:
        return (yield from ask("alert_texts", **scope._asdict(), after=after, most=most))
    return (yield from ask("dead_letter_texts", **scope._asdict(), after=after, most=most))

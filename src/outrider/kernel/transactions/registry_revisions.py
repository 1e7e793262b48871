"""Registry replacements: each is a revision, which the other servers follow."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask, ask_alone


class Revision(NamedTuple):
    """`sha256` is of the contracts and not of their formatting."""

    revision: int
    sha256: str
    document: str


def latest_revision() -> Transaction[int]:
    """A cheap read; 0: no revision was ever published."""
    rows = yield from ask_alone("latest_registry_revision")
    return int(rows[0][0])


def latest() -> Transaction[Revision | None]:
    rows = yield from ask_alone("latest_registry")
    return Revision(*rows[0]) if rows else None


def is_outdated(sha256: str) -> Transaction[bool]:
    """Whether these contracts were in force before a revision replaced them."""
    rows = yield from ask_alone("registry_was_replaced", sha256=sha256)
    return bool(rows[0][0])


def publish(
    scope: Scope,
    document: str,
    sha256: str,
    replaced_sha256: str | None,
    detail: dict[str, object],
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[int]:
    """Serialised, so that revisions have an order; returns the new one's number."""
    yield from ask("serialise_registries")
    rows = yield from ask(
        "insert_registry",
        sha256=sha256,
        replaced_sha256=replaced_sha256,
        document=document,
        actor=actor,
        now=now,
    )
    yield from record([AuditEntry(scope, "registry.replaced", actor, detail=detail)], ids, now)
    return int(rows[0][0])

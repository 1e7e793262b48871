"""What needs attention in a workspace, counted; and states that bypassed the state machine."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.ports.store import Transaction, ask


class Trouble(NamedTuple):
    doubts: int
    alerts: int
    dead_letters: int
    bypasses: int
    failed_events: int


class Bypass(NamedTuple):
    id: str
    created_at: datetime
    campaign_id: str
    detail: str


def trouble(scope: Scope, most: int) -> Transaction[Trouble]:
    """At most `most` are counted of each kind."""
    rows = yield from ask("count_trouble", **scope._asdict(), most=most)
    return Trouble(*rows[0])


def bypasses_page(scope: Scope, before: str, most: int) -> Transaction[list[Bypass]]:
    """Newest first."""
    rows = yield from ask("bypasses_page", **scope._asdict(), before=before, most=most)
    return [Bypass(*row) for row in rows]

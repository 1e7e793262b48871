"""Screening: a workspace's policies, and which items are delayed because of them. As when opening
attempts, the same transaction first verifies that the job is ours.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.ids import OutboxId, Scope
from outrider.domain.screen_policies import ScreenPolicies, policies_from
from outrider.domain.texts import storable
from outrider.kernel.transactions.claims import Claim
from outrider.kernel.transactions.jobs import Hold, hold
from outrider.ports.store import Transaction, ask


class Deferral(NamedTuple):
    id: OutboxId
    until: datetime
    waits_for: str
    expires_at: datetime | None = None
    """Its contract's deadline, counted from `until`; only if it has not been called yet."""


class Ending(NamedTuple):
    """An item that is not called, now or ever."""

    id: OutboxId
    reason: str
    error: str | None = None


class HeldBack(NamedTuple):
    """The items of a window that do not pass, by how they end."""

    deferred: list[Deferral]
    skipped: list[Ending]
    failed: list[Ending]


def policies_of(scope: Scope) -> Transaction[ScreenPolicies]:
    rows = yield from ask("workflow_policy", **scope._asdict())
    return policies_from(msgspec.json.decode(rows[0][0])) if rows else ScreenPolicies()


def set_policies(scope: Scope, policies: ScreenPolicies, now: datetime) -> Transaction[None]:
    document = msgspec.json.encode(policies.as_stored()).decode()
    yield from ask("set_workflow_policy", **scope._asdict(), document=document, now=now)


def hold_back(
    job: Claim, held_back: HeldBack, lease_expires_at: datetime, now: datetime
) -> Transaction[Hold]:
    """At most one statement per kind of ending; none if the job is no longer ours."""
    held = yield from hold(job, lease_expires_at, now)
    if held is Hold.OURS:
        yield from hold_back_held(held_back, now)
    return held


def hold_back_held(held_back: HeldBack, now: datetime) -> Transaction[None]:
    """The same inside a script that holds the job already."""
    if held_back.deferred:
        yield from ask(
            "defer_items",
            {
                "id": [each.id for each in held_back.deferred],
                "until": [each.until for each in held_back.deferred],
                "waits_for": [each.waits_for for each in held_back.deferred],
                "expires_at": [each.expires_at for each in held_back.deferred],
            },
            now=now,
        )
    if held_back.skipped:
        yield from ask("skip_items", _endings(held_back.skipped), now=now)
    if held_back.failed:
        yield from ask("fail_items", _endings(held_back.failed), now=now)


def _endings(endings: Sequence[Ending]) -> dict[str, Sequence[object]]:
    return {
        "id": [each.id for each in endings],
        "reason": [each.reason for each in endings],
        "error": [storable(each.error) for each in endings],
    }

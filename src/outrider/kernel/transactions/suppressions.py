"""Suppressions: written in windows, and looked up for previews and lists. Messages are screened
only by the statement that opens their attempt.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.suppressions import EVERYTHING, OptOut, Suppression, SuppressionSource
from outrider.kernel.transactions import erased_suppressions
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask

Cursor = tuple[str, str, str]
"""The channel, address and topic of the last one on the previous page."""
FIRST: Cursor = ("", "", "")


class PlannedMessage(NamedTuple):
    """A planned message, with the fields that opt-outs depend on."""

    channel: str
    address: str
    purpose: Purpose = UNSTATED


def suppress(
    scope: Scope, channel: str, addresses: Sequence[str], opt_out: OptOut, now: datetime
) -> Transaction[int]:
    """How many of them this changed: they were not suppressed before, or not as far."""
    changed = yield from ask(
        "insert_suppressions",
        {"channel": [channel] * len(addresses), "address": addresses},
        **scope._asdict(),
        topic=opt_out.topic or EVERYTHING,
        reason=opt_out.reason,
        source=opt_out.source.value,
        evidence=opt_out.evidence,
        includes_transactional=opt_out.includes_transactional,
        now=now,
    )
    return len(changed)


def lift(
    scope: Scope, channel: str, addresses: Sequence[str], topic: str | None
) -> Transaction[int]:
    """Lift all opt-outs of these addresses, or those for one topic. Returns how many were
    suppressed."""
    window = {"channel": [channel] * len(addresses), "address": addresses}
    rows = yield from ask("delete_suppressions", window, **scope._asdict(), topic=topic)
    erased = yield from erased_suppressions.lift(scope, channel, addresses, topic)
    return len({row[0] for row in rows} | erased)


def page(scope: Scope, after: Cursor, most: int) -> Transaction[list[Suppression]]:
    channel, address, topic = after
    rows = yield from ask(
        "suppressions_page",
        **scope._asdict(),
        after_channel=channel,
        after_address=address,
        after_topic=topic,
        most=most,
    )
    return [
        Suppression(
            channel, address, topic or None, reason, SuppressionSource(source), evidence,
            bool(includes_transactional), created_at,
        )
        for channel, address, topic, reason, source, evidence, includes_transactional, created_at
        in rows
    ]  # fmt: skip


def suppressed_among(
    scope: Scope, addressed: Sequence[PlannedMessage]
) -> Transaction[set[PlannedMessage]]:
    """Those that would be held back if they were sent now."""
    window = {
        "place": range(len(addressed)),
        "channel": [each.channel for each in addressed],
        "address": [each.address for each in addressed],
        "topic": [each.purpose.topic for each in addressed],
        "transactional": [each.purpose.transactional for each in addressed],
    }
    rows = yield from ask("suppressed_among", window, **scope._asdict())
    return {addressed[row[0]] for row in rows}


def suppress_recorded(
    scope: Scope,
    channel: str,
    addresses: Sequence[str],
    opt_out: OptOut,
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """The audit log records how many; the addresses themselves stay out of it."""
    yield from suppress(scope, channel, addresses, opt_out, now)
    detail: dict[str, object] = {
        "channel": channel,
        "addresses": len(addresses),
        "source": opt_out.source.value,
        "topic": opt_out.topic,
        "includesTransactional": opt_out.includes_transactional,
    }
    yield from record([AuditEntry(scope, "suppression.added", actor, detail=detail)], ids, now)


def lift_recorded(
    scope: Scope,
    channel: str,
    addresses: Sequence[str],
    topic: str | None,
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[int]:
    removed = yield from lift(scope, channel, addresses, topic)
    detail: dict[str, object] = {"channel": channel, "addresses": removed, "topic": topic}
    yield from record([AuditEntry(scope, "suppression.removed", actor, detail=detail)], ids, now)
    return removed


def unsubscribe(
    scope: Scope,
    channel: str,
    address: str,
    opt_out: OptOut,
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """A repeat changes nothing, and is not recorded."""
    if not (yield from suppress(scope, channel, [address], opt_out, now)):
        return
    detail: dict[str, object] = {
        "channel": channel, "addresses": 1, "reason": opt_out.reason, "topic": opt_out.topic,
    }  # fmt: skip
    yield from record([AuditEntry(scope, "suppression.added", actor, detail=detail)], ids, now)

"""What receipts do to suppressions: each row has its own evidence, and START lifts only STOP."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.domain.suppressions import SuppressionSource
from outrider.domain.texts import storable
from outrider.ports.store import Transaction, ask


class ReportedOptOut(NamedTuple):
    """An address that a receipt says must not be used on its channel. The evidence names it."""

    channel: str
    address: str
    source: SuppressionSource
    reason: str
    evidence: str


class ChangedSuppression(NamedTuple):
    channel: str
    address: str
    """In lower case."""
    source: SuppressionSource


def suppress(
    scope: Scope, reported: Sequence[ReportedOptOut], now: datetime
) -> Transaction[list[ChangedSuppression]]:
    """The addresses that this changed anything for."""
    # Of each address once: of two that came together, STOP gives way, since START would lift it.
    by_address: dict[tuple[str, str], ReportedOptOut] = {}
    for each in sorted(reported, key=lambda each: each.source is not SuppressionSource.STOP):
        by_address[each.channel, each.address.lower()] = each
    if not by_address:
        return []
    ordered = [by_address[place] for place in sorted(by_address)]
    rows = yield from ask(
        "insert_receipt_suppressions",
        {
            "channel": [each.channel for each in ordered],
            "address": [each.address for each in ordered],
            "reason": [storable(each.reason) for each in ordered],
            "source": [each.source.value for each in ordered],
            "evidence": [each.evidence for each in ordered],
        },
        **scope._asdict(),
        now=now,
    )
    return [
        ChangedSuppression(channel, address, SuppressionSource(source))
        for channel, address, source in rows
    ]


def lock(
    scope: Scope, reported: Sequence[ReportedOptOut], lifted: Sequence[tuple[str, str]]
) -> Transaction[None]:
    """Lock the existing suppressions in one order, because some are lifted before the rest are
    written: otherwise two matchers could deadlock."""
    if not (reported and lifted):
        return
    places = {(each.channel, each.address) for each in reported} | set(lifted)
    window = {
        "channel": [channel for channel, _ in sorted(places)],
        "address": [address for _, address in sorted(places)],
    }
    yield from ask("lock_suppressions", window, **scope._asdict())


def lift_stopped(scope: Scope, addresses: Sequence[tuple[str, str]]) -> Transaction[int]:
    """Allow these (channel, address) again, if nothing but a STOP blocks them."""
    if not addresses:
        return 0
    window = {
        "channel": [channel for channel, _ in addresses],
        "address": [address for _, address in addresses],
    }
    rows = yield from ask("lift_stopped", window, **scope._asdict())
    return len(rows)

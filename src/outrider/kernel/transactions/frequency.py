"""The frequency cap, counted where attempts are opened: no two transactions admit messages to one
address at the same time.

Only workspaces with a cap pay for it, and a cap counts from the moment it is set.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.frequency import SendHistory
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.screen_policies import FrequencyCap
from outrider.ports.store import Transaction, ask


class CappedItem(NamedTuple):
    id: OutboxId
    channel: str
    address: str | None
    may_exceed: bool = False
    """It goes beyond the cap, and counts: urgent, exempt, or the repeat of a call."""


def admit(
    scope: Scope, items: Sequence[CappedItem], cap: FrequencyCap, now: datetime
) -> Transaction[dict[OutboxId, datetime]]:
    """Returns the items beyond the cap, with the time at which it allows each. The others count as
    sent from now on, unless they end without a call."""
    addressed = [item for item in items if item.address is not None]
    wanted = sorted({_key(item) for item in addressed})
    if not wanted:
        return {}
    window = {
        "channel": [channel for channel, _ in wanted],
        "address": [address for _, address in wanted],
    }
    # Everybody locks addresses in this order. What others admitted is committed once we hold them.
    yield from ask("lock_capped_addresses", window, **scope._asdict(), now=now)
    most = cap.messages + len(addressed)
    since = now - cap.period
    yield from ask("forget_capped_sends", window, **scope._asdict(), since=since)
    rows = yield from ask("capped_sends", window, **scope._asdict(), since=since, most=most)
    history = SendHistory()
    for channel, address, _, sent_at in rows:
        history.note(channel, address, sent_at)
    counted = {row[2] for row in rows}
    beyond: dict[OutboxId, datetime] = {}
    going: list[CappedItem] = []
    for item in addressed:
        if item.id in counted:
            # Opened before, and given back or refused for now: it is the same message.
            continue
        channel, address = _key(item)
        free = None if item.may_exceed else history.free_again(cap, channel, address, now)
        if free is not None:
            beyond[item.id] = free
            continue
        history.note(channel, address, now)
        going.append(item)
    if going:
        yield from ask(
            "note_capped_sends",
            {
                "id": [item.id for item in going],
                "channel": [item.channel for item in going],
                "address": [_key(item)[1] for item in going],
            },
            **scope._asdict(),
            now=now,
        )
    return beyond


def _key(item: CappedItem) -> tuple[str, str]:
    return item.channel, (item.address or "").lower()

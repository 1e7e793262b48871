"""The frequency cap: how often an address may receive messages, and when the next may go."""

from bisect import insort
from collections.abc import Iterable
from datetime import datetime

from outrider.domain.screen_policies import FrequencyCap


def free_again(cap: FrequencyCap, sent: Iterable[datetime], now: datetime) -> datetime | None:
    """None if one more may go now, else the time at which the cap allows the next."""
    recent = sorted(sent_at for sent_at in sent if sent_at > now - cap.period)
    if len(recent) < cap.messages:
        return None
    return recent[len(recent) - cap.messages] + cap.period


def reached(cap: FrequencyCap) -> str:
    """Why a message beyond the cap is skipped."""
    return f"{cap.messages} messages in {cap.per_hours} h were already sent to this address"


class SendHistory:
    """Recent messages per address; each message let through is added at once."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], list[datetime]] = {}

    def note(self, channel: str, address: str, sent_at: datetime) -> None:
        insort(self._sent.setdefault((channel, address.lower()), []), sent_at)

    def free_again(
        self, cap: FrequencyCap, channel: str, address: str, now: datetime
    ) -> datetime | None:
        return free_again(cap, self._sent.get((channel, address.lower()), ()), now)

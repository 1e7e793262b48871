"""The frequency cap: how often one address is written to, and when it may be again."""

from bisect import insort
from collections.abc import Iterable
from datetime import datetime

from outrider.domain.screen_policies import FrequencyCap


def free_again(cap: FrequencyCap, heard: Iterable[datetime], now: datetime) -> datetime | None:
    """None: one more may go now. Else the moment at which enough of them are long enough ago."""
    recent = sorted(moment for moment in heard if moment > now - cap.period)
    if len(recent) < cap.messages:
        return None
    return recent[len(recent) - cap.messages] + cap.period


class SendHistory:
    """What each address has heard lately; what is about to go is added as it is let through."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, str], list[datetime]] = {}

    def note(self, channel: str, address: str, moment: datetime) -> None:
        insort(self._heard.setdefault((channel, address.lower()), []), moment)

    def free_again(
        self, cap: FrequencyCap, channel: str, address: str, now: datetime
    ) -> datetime | None:
        return free_again(cap, self._heard.get((channel, address.lower()), ()), now)

"""The hours judge: when a message may go by its workspace's sending hours, where its recipient is.

What is closed is computed once per channel and place, and stays closed until it opens.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.sending_hours import PhoneZones, Wait, wait_in_all, zones_of
from outrider.domain.states import Channel

Zones = tuple[tzinfo, ...]


class HoursJudge:
    def __init__(
        self,
        policies: ScreenPolicies,
        phone_zones: PhoneZones,
        on_unknown_zone: Callable[[str], None],
    ) -> None:
        self._policies = policies
        self._phone_zones = phone_zones
        self._on_unknown_zone = on_unknown_zone
        self._closed: dict[tuple[Channel, Zones], Wait] = {}

    def zones(self, own_zone: str | None, address: str | None, default: str | None = None) -> Zones:
        found = zones_of(own_zone, address, default or self._policies.time_zone, self._phone_zones)
        if found.unknown is not None:
            self._on_unknown_zone(found.unknown)
        return found.zones

    def wait(self, channel: Channel, zones: Zones, now: datetime) -> Wait | None:
        """None: it may go."""
        hours: Sequence[object] = self._policies.hours(channel)
        if not hours:
            return None
        known = self._closed.get((channel, zones))
        if known is not None and now < known.until:
            return known
        found = wait_in_all(self._policies.hours(channel), zones, now)
        if found is not None:
            self._closed[channel, zones] = found
        return found

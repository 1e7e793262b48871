"""How long a provider remembers a reference, so that a repeat under it is no second message.

No provider is assumed to remember: a family states what its provider documents, or a target
declares it in its settings. Every repeated call after a silence relies on this.
"""

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION_MAX_SECONDS: Final = 10 * 365 * 86_400
MARGIN_MAX_SECONDS: Final = 60.0
MARGIN_SHARE: Final = 0.1
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")


@dataclass(frozen=True, slots=True, order=True)
class ReferenceMemory:
    """Ordered by how much it promises: never, in flight, for a while, for good."""

    seconds: float
    while_in_flight: bool = False
    """It refuses a reference while the first call is in progress, and forgets it afterwards."""

    @property
    def is_memory(self) -> bool:
        """Whether a repeat can be safe at all."""
        return self.seconds > 0

    def holds(self, submitted_at: datetime, now: datetime) -> bool:
        """Whether a reference accepted then is certainly still known. The first call came no
        earlier than the submission, so that is where counting starts."""
        if not self.is_memory:
            return False
        return math.isinf(self.seconds) or now < submitted_at + timedelta(seconds=self.seconds)

    def allows_repeat(self, submitted_at: datetime, now: datetime) -> bool:
        """Whether a repeat that is begun now is certainly recognised. Not in its last minute, or
        tenth: a repeat takes time to arrive, and clocks differ."""
        margin = min(MARGIN_MAX_SECONDS, self.seconds * MARGIN_SHARE)
        return self.holds(submitted_at, now + timedelta(seconds=margin))

    def __str__(self) -> str:
        """As written in settings."""
        if not self.is_memory:
            return "in_flight" if self.while_in_flight else "never"
        if math.isinf(self.seconds):
            return "for_good"
        units = [unit for unit, size in UNIT_SECONDS.items() if self.seconds % size == 0]
        # A day is usually written in hours.
        unit = "h" if self.seconds == UNIT_SECONDS["d"] else units[-1]
        return f"{int(self.seconds) // UNIT_SECONDS[unit]}{unit}"

    @classmethod
    def parse(cls, text: str) -> "ReferenceMemory":
        """Raises ValueError for anything but the four forms."""
        if text in _BY_NAME:
            return _BY_NAME[text]
        found = _DURATION.fullmatch(text)
        seconds = int(found[1]) * UNIT_SECONDS[found[2]] if found else 0
        if not 0 < seconds <= DURATION_MAX_SECONDS:
            raise ValueError(
                f"{text!r:.40} is not how long references are remembered: say never, in_flight, "
                "for_good, or a duration such as 90s, 30m, 24h or 7d"
            )
        return cls(float(seconds))


NEVER: Final = ReferenceMemory(0.0)
IN_FLIGHT: Final = ReferenceMemory(0.0, while_in_flight=True)
FOR_GOOD: Final = ReferenceMemory(math.inf)
_BY_NAME: Final = {str(each): each for each in (NEVER, IN_FLIGHT, FOR_GOOD)}


def memory_of(
    documented: ReferenceMemory | None, declared: ReferenceMemory | None
) -> ReferenceMemory:
    """What a target may rely on. None documented: any server may speak this protocol, so only the
    target's own declaration counts. Where a provider documents it, a target may promise less."""
    if documented is None:
        return declared or NEVER
    return documented if declared is None else min(documented, declared)

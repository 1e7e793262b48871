"""When a call is repeated, and after how long."""

import random
from dataclasses import dataclass

TEMPORARY = frozenset({429, 502, 503, 504})
BUSY = 409


@dataclass(frozen=True)
class Retries:
    """`within_seconds` is less than the five minutes for which a server remembers a key."""

    attempts: int = 6
    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 10.0
    within_seconds: float = 120.0

    def delay(
        self, attempt: int, elapsed_seconds: float, retry_after: str | None = None
    ) -> float | None:
        """Seconds until the next attempt; None to give up. Attempts are counted from 1."""
        if attempt >= self.attempts:
            return None
        doubled = self.first_delay_seconds * 2.0 ** (attempt - 1)
        # Clients that failed together should not come back together.
        wait = min(doubled, self.longest_delay_seconds) * random.uniform(0.5, 1.0)
        if retry_after is not None and retry_after.isdecimal():
            wait = max(wait, float(retry_after))
        return wait if elapsed_seconds + wait <= self.within_seconds else None


NO_RETRIES = Retries(attempts=1)


def is_temporary(status: int, retry_after: str | None) -> bool:
    """A 409 that names a time is the repeat of a request that is still being answered."""
    return status in TEMPORARY or (status == BUSY and retry_after is not None)

"""Recently accepted keys, recognised while the database that validates them is unavailable.

Only for requests that name no tenant: monitoring must see it when the database is gone.
"""

import hashlib

from cachetools import TTLCache

from outrider.domain.keys import KeyId
from outrider.limits.access import RECENT_KEY_SECONDS, RECENT_KEYS_MAX
from outrider.ports.clock import Clock


class RecentKeys:
    def __init__(self, clock: Clock) -> None:
        self._admitted: TTLCache[bytes, KeyId] = TTLCache(
            RECENT_KEYS_MAX, RECENT_KEY_SECONDS, timer=clock.monotonic
        )
        """By the digest of the key."""

    def note(self, key: str, key_id: KeyId) -> None:
        self._admitted[_digest(key)] = key_id

    def forget(self, key: str) -> None:
        """It was refused since."""
        self._admitted.pop(_digest(key), None)

    def forget_revoked(self, key_id: KeyId) -> None:
        for digest in [each for each, its_id in self._admitted.items() if its_id == key_id]:
            self._admitted.pop(digest, None)

    def knows(self, key: str) -> bool:
        return _digest(key) in self._admitted


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()

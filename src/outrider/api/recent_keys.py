"""Recently accepted keys, recognised while the database that validates them is unavailable.

Only for requests that name no tenant: monitoring must see it when the database is gone.
"""

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from outrider.domain.keys import KeyId
from outrider.limits.access import RECENT_KEY_SECONDS, RECENT_KEYS_MAX
from outrider.ports.clock import Clock


class _Admitted(NamedTuple):
    key_id: KeyId
    at: float


class RecentKeys:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._admitted: OrderedDict[bytes, _Admitted] = OrderedDict()

    def note(self, key: str, key_id: KeyId) -> None:
        digest = _digest(key)
        self._admitted[digest] = _Admitted(key_id, self._clock.monotonic())
        self._admitted.move_to_end(digest)
        if len(self._admitted) > RECENT_KEYS_MAX:
            self._admitted.popitem(last=False)

    def forget(self, key: str) -> None:
        """It was refused since."""
        self._admitted.pop(_digest(key), None)

    def forget_revoked(self, key_id: KeyId) -> None:
        for digest in [each for each, found in self._admitted.items() if found.key_id == key_id]:
            del self._admitted[digest]

    def knows(self, key: str) -> bool:
        found = self._admitted.get(_digest(key))
        return found is not None and self._clock.monotonic() - found.at < RECENT_KEY_SECONDS


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()

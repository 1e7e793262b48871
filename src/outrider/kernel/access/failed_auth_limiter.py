"""The failed-auth limiter: a client that keeps presenting invalid keys has to wait between tries.

Each address (and subject) has a bucket of failures that refills over time; success costs nothing.
An IPv6 /64 counts as one address, because its owner can use every address in it.
"""

from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address, ip_address

from cachetools import LRUCache

from outrider.limits.access import (
    FAILED_AUTH_ADDRESS_MAX_CHARACTERS,
    FAILED_AUTH_ADDRESSES,
    FAILED_AUTH_BURST,
    FAILED_AUTH_REFILL_SECONDS,
)

IPV6_HOST_BITS = 64


@dataclass(frozen=True, slots=True)
class _Bucket:
    failures_left: float
    as_of: datetime


class FailedAuthLimiter:
    def __init__(
        self, burst: int = FAILED_AUTH_BURST, refill_seconds: float = FAILED_AUTH_REFILL_SECONDS
    ) -> None:
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._buckets: LRUCache[tuple[str, str], _Bucket] = LRUCache(FAILED_AUTH_ADDRESSES)

    def seconds_to_wait(self, address: str, now: datetime, about: str = "") -> float | None:
        """None if this address may try now."""
        left = self._left((network_of(address), about), now)
        return None if left >= 1 else (1 - left) * self._refill_seconds

    def note_failure(self, address: str, now: datetime, about: str = "") -> None:
        key = network_of(address), about
        self._buckets[key] = _Bucket(max(0.0, self._left(key, now) - 1), now)

    def _left(self, key: tuple[str, str], now: datetime) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return self._burst
        passed = max(0.0, (now - bucket.as_of).total_seconds())
        return min(self._burst, bucket.failures_left + passed / self._refill_seconds)

    def __len__(self) -> int:
        return len(self._buckets)


def network_of(address: str) -> str:
    """IPv4 unchanged, also when mapped into IPv6; IPv6 as its /64; anything else as the name
    itself."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:FAILED_AUTH_ADDRESS_MAX_CHARACTERS]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS)}/{128 - IPV6_HOST_BITS}"

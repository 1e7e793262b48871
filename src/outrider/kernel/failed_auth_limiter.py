"""The failed-auth limiter: who keeps presenting keys that are none has to wait between tries.

An address has a bucket of failures that fills again with time; success costs nothing. A network
of IPv6 is one address, because whoever has one of its addresses has all of them.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address, ip_address

from outrider.settings import (
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

    def at(self, now: datetime) -> float:
        passed = max(0.0, (now - self.as_of).total_seconds())
        return min(FAILED_AUTH_BURST, self.failures_left + passed / FAILED_AUTH_REFILL_SECONDS)


class FailedAuthLimiter:
    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def seconds_to_wait(self, address: str, now: datetime) -> float | None:
        """None if this address may try now."""
        bucket = self._buckets.get(network_of(address))
        left = FAILED_AUTH_BURST if bucket is None else bucket.at(now)
        return None if left >= 1 else (1 - left) * FAILED_AUTH_REFILL_SECONDS

    def note_failure(self, address: str, now: datetime) -> None:
        network = network_of(address)
        bucket = self._buckets.get(network)
        left = FAILED_AUTH_BURST if bucket is None else bucket.at(now)
        self._buckets[network] = _Bucket(max(0.0, left - 1), now)
        # In the order of their last failures, so that who is forgotten has waited the longest.
        self._buckets.move_to_end(network)
        while len(self._buckets) > FAILED_AUTH_ADDRESSES:
            self._buckets.popitem(last=False)

    def __len__(self) -> int:
        return len(self._buckets)


def network_of(address: str) -> str:
    """IPv4 as it is, also where it is written as IPv6; IPv6 by its /64; anything else by name."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:FAILED_AUTH_ADDRESS_MAX_CHARACTERS]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS)}/{128 - IPV6_HOST_BITS}"

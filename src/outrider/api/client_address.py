"""The client's address: that of the peer, or the one that trusted proxies report.

Anyone may send an `X-Forwarded-For`. It is read from its end, where our own proxies wrote, and only
for as long as each address is one of theirs.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.requests import Request

from outrider.limits.access import FORWARDED_HOPS_MAX

UNKNOWN_ADDRESS = "unknown"
HEADER = "x-forwarded-for"


class TrustedProxies:
    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)

    def client_of(self, request: Request) -> str:
        peer = request.client.host if request.client else UNKNOWN_ADDRESS
        if not self._networks or not self._trusts(peer):
            return peer
        client = peer
        for hop in reversed(_hops(request.headers.getlist(HEADER))):
            address = _address(hop)
            if address is None:
                # Not written by our proxies, so everything before it is untrusted.
                return client
            client = address
            if not self._trusts(client):
                return client
        return client

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)


def _hops(headers: Sequence[str]) -> list[str]:
    """The last ones: those nearest to us."""
    return [hop.strip() for line in headers for hop in line.split(",")][-FORWARDED_HOPS_MAX:]


def _address(hop: str) -> str | None:
    """Accepts a port, as some proxies write it: `192.0.2.1:443`, `[2001:db8::1]:443`."""
    bare = hop[1:].partition("]")[0] if hop.startswith("[") else hop
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        return None

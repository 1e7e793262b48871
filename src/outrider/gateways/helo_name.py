"""The name by which we greet mail servers: one that resolves, or else our address.

RFC 5321 (4.1.4) requires a fully qualified host name or an address literal; servers refuse a bare
host name.
"""

import asyncio
import ipaddress
import re
import socket

from outrider.domain.errors import InvalidInput
from outrider.limits.gateways import HELO_LOOKUP_SECONDS

_FULL_NAME = re.compile(
    r"(?=.{3,255}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z"
)
_OF_NO_USE = (".localdomain", ".localhost", ".arpa")


def _full_name() -> str | None:
    name = socket.getfqdn()
    if not _FULL_NAME.match(name) or name.lower().endswith(_OF_NO_USE) or _is_address(name):
        return None
    return name


_looked_up: str | None = None
_has_looked = False


async def own_name(connection: socket.socket) -> str:
    """Our full name, looked up once; else the local address of this connection."""
    global _looked_up, _has_looked
    if not _has_looked:
        _has_looked = True
        try:
            async with asyncio.timeout(HELO_LOOKUP_SECONDS):
                _looked_up = await asyncio.to_thread(_full_name)
        except (TimeoutError, OSError):
            _looked_up = None
    return _looked_up or literal(connection.getsockname()[0])


def literal(address: str) -> str:
    """RFC 5321, 4.1.3."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None:
        found = mapped
    return f"[{found}]" if found.version == 4 else f"[IPv6:{found}]"


def checked(name: str) -> str:
    """A name from the settings: fully qualified, or an address literal."""
    inside = name[1:-1].removeprefix("IPv6:") if name[:1] + name[-1:] == "[]" else None
    if _FULL_NAME.match(name) or (inside is not None and _is_address(inside)):
        return name
    raise InvalidInput(
        f"'{name}' cannot be the name for HELO",
        hint='use the full name of this host, as in mail.example.test, or "[192.0.2.1]"',
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

"""The outgoing address guard: which addresses a gateway may really be connected to.

It checks the address that a socket is about to connect to, after all resolving, so neither the
spelling of an address nor a name that resolves differently the second time gets around it.
"""

import asyncio
import errno
import ipaddress
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

ADDRESS_SECONDS = 1.0
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, Any]
"""One result of getaddrinfo: family, kind, protocol, canonical name, socket address."""

# Written out from IANA's special-purpose registries: what `ipaddress` calls private changes with
# Python's patch releases, and a guard should not.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network, and the unspecified address
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a carrier
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; clouds keep their credentials here
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocols' own, Teredo's tunnels among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: any IPv4 address, in a tunnel
        "3fff::/20",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """The address is not public and the setting `allow_private_gateways` is off."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "not a public address, and allow_private_gateways is off")


def is_public(text: str) -> bool:
    """Whether an address, as a socket is given it, is on the public Internet."""
    try:
        # A scope such as `%eth0` names the interface, not the destination.
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        carried = _carried(address)
        if carried is None:
            refused = any(address in block for block in _NOT_PUBLIC_6)
            return address in _GLOBAL_UNICAST_6 and not refused
        address = carried
    return not any(address in block for block in _NOT_PUBLIC_4)


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that the operating system or a NAT64 would really connect to."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped


def guarded_socket(info: AddressInfo) -> socket.socket:
    """A socket for this address only; raises AddressRefused if it is not public."""
    family, kind, protocol, _, address = info
    if family not in (socket.AF_INET, socket.AF_INET6) or not is_public(address[0]):
        raise AddressRefused
    return socket.socket(family, kind, protocol)


def open_socket(info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, _ = info
    return socket.socket(family, kind, protocol)


async def connect(host: str, port: int, *, allow_private: bool) -> socket.socket:
    """Resolve once, then connect to the very address that was checked; raises the last failure.

    An address that does not answer is abandoned early if there is another one.
    """
    loop = asyncio.get_running_loop()
    make = open_socket if allow_private else guarded_socket
    failure = OSError(f"{host} has no address")
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, info in enumerate(found, start=1):
        try:
            line = make(info)
        except OSError as error:
            failure = error
            continue
        try:
            line.setblocking(False)
            async with asyncio.timeout(ADDRESS_SECONDS if number < len(found) else None):
                await loop.sock_connect(line, info[4])
        except OSError as error:
            line.close()
            failure = error
        except BaseException:
            line.close()
            raise
        else:
            return line
    raise failure

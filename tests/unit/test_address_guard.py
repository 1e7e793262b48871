"""Which addresses the guard lets through: all of the public Internet, and nothing else."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateways.address_guard import AddressRefused, guarded_socket, is_public

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255",
    "172.32.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8",
    "64:ff9b::808:808", "2001:4860:4860::8888", "2001:200::1",
]  # fmt: skip
NOT_PUBLIC = [
    # this host, this network, nobody
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::1", "::",
    # private, shared, link-local (and a cloud's metadata)
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
    "169.254.169.254", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    # multicast, broadcast, reserved, documentation, benchmarks
    "224.0.0.1", "239.1.2.3", "255.255.255.255", "240.0.0.1", "ff02::1", "192.0.2.1", "192.0.0.8",
    "198.18.0.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "2001:db8::1", "3fff::1",
    "100::1", "5f00::1",
    # an IPv4 address inside an IPv6 one: mapped, compatible, 6to4, Teredo, NAT64
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
    "2002:7f00:1::1", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::808:808", "::ffff:0:127.0.0.1",
    # what is no address at all
    "", "localhost", "127.1", "0x7f.1", "2130706433", "1.1.1.1/8", "/run/socket",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_every_other_address_is_refused(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_addresses_that_python_calls_special_are_never_public(
    address: ipaddress.IPv4Address,
) -> None:
    special = (
        address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
        or address.is_reserved or address.is_unspecified or not address.is_global
    )  # fmt: skip
    assert not (special and is_public(str(address)))


@given(st.ip_addresses(v=6))
def test_a_special_ipv6_address_is_never_public(address: ipaddress.IPv6Address) -> None:
    special = (
        address.is_private or address.is_link_local or address.is_multicast
        or address.is_site_local or not address.is_global
    )  # fmt: skip
    carries = address.ipv4_mapped or address in ipaddress.ip_network("64:ff9b::/96")
    assert not (special and not carries and is_public(str(address)))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_gains_nothing_by_being_carried_in_an_ipv6_one(
    address: ipaddress.IPv4Address,
) -> None:
    for carrier in ("::ffff:0:0", "64:ff9b::"):
        carried = ipaddress.IPv6Address(int(ipaddress.IPv6Address(carrier)) + int(address))
        assert is_public(str(carried)) == is_public(str(address))
    tunnelled = ipaddress.IPv6Address((0x2002 << 112) + (int(address) << 80) + 1)
    assert not is_public(str(tunnelled))


@pytest.mark.parametrize(
    "spelling", ["2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0", "0x7f.1"]
)
def test_a_spelling_that_the_resolver_understands_is_judged_by_what_it_means(spelling: str) -> None:
    [info, *_] = socket.getaddrinfo(spelling, 80, type=socket.SOCK_STREAM)
    with pytest.raises(AddressRefused):
        guarded_socket(info)


def test_a_public_address_is_given_a_socket_and_a_unix_path_is_not() -> None:
    [info, *_] = socket.getaddrinfo("8.8.8.8", 80, type=socket.SOCK_STREAM)
    guarded_socket(info).close()
    with pytest.raises(AddressRefused):
        guarded_socket((socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/run/x"))

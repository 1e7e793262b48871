"""Whose request it is (audit A11): trusted proxies are believed, and nobody else."""

from ipaddress import ip_network

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from outrider.api.client_address import UNKNOWN_ADDRESS, TrustedProxies
from outrider.limits.access import FORWARDED_HOPS_MAX
from outrider.settings import Settings

PROXIES = TrustedProxies(map(ip_network, ("10.0.0.0/8", "2001:db8:ffff::/48")))
CLIENT, OTHER = "203.0.113.7", "203.0.113.8"


def asked(peer: str | None, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    client = None if peer is None else (peer, 50_000)
    return Request({"type": "http", "headers": headers, "client": client})


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        # Without a proxy of ours the header is what anybody writes.
        (CLIENT, [OTHER], CLIENT),
        (CLIENT, [], CLIENT),
        # Ours wrote the last address, whatever its sender wrote before.
        ("10.1.2.3", [CLIENT], CLIENT),
        ("10.1.2.3", [f"{OTHER}, {CLIENT}"], CLIENT),
        ("10.1.2.3", [OTHER, CLIENT], CLIENT),
        ("::ffff:10.1.2.3", [CLIENT], CLIENT),
        # A chain of ours is followed to its end.
        ("10.1.2.3", [f"{OTHER}, {CLIENT}, 10.9.9.9, 2001:db8:ffff::1"], CLIENT),
        ("10.1.2.3", ["10.9.9.9"], "10.9.9.9"),
        # Ports, as some proxies write them.
        ("10.1.2.3", [f"{CLIENT}:4711"], CLIENT),
        ("10.1.2.3", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.1.2.3", ["2001:db8::1"], "2001:db8::1"),
        # What is no address ends it: nobody of ours wrote that.
        ("10.1.2.3", [f"{CLIENT}, unknown"], "10.1.2.3"),
        ("10.1.2.3", [f"{CLIENT}, unknown, 10.9.9.9"], "10.9.9.9"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("10.1.2.3", [], "10.1.2.3"),
        (None, [CLIENT], UNKNOWN_ADDRESS),
    ],
)
def test_the_client_is_who_trusted_proxies_say(
    peer: str | None, forwarded: list[str], client: str
) -> None:
    """A11."""
    assert PROXIES.client_of(asked(peer, *forwarded)) == client


def test_without_trusted_proxies_the_peer_is_the_client() -> None:
    assert TrustedProxies([]).client_of(asked("10.1.2.3", CLIENT)) == "10.1.2.3"


def test_only_so_many_hops_are_read() -> None:
    chain = ", ".join([CLIENT, *["10.0.0.1"] * FORWARDED_HOPS_MAX])
    assert PROXIES.client_of(asked("10.1.2.3", chain)) == "10.0.0.1"


@pytest.mark.parametrize("written", ["10.0.0.0/8, 192.0.2.1", '["10.0.0.0/8", "192.0.2.1"]'])
def test_trusted_proxies_are_set_as_a_list(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("OUTRIDER_TRUSTED_PROXIES", written)
    assert [str(each) for each in Settings().trusted_proxies] == ["10.0.0.0/8", "192.0.2.1/32"]


@pytest.mark.parametrize("written", ["everybody", "10.0.0.1/8", "[10.0.0.1"])
def test_an_invalid_network_is_refused(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("OUTRIDER_TRUSTED_PROXIES", written)
    with pytest.raises(ValidationError, match="trusted_proxies"):
        Settings()

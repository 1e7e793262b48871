"""Which domains receive mail: names go in, DNS verdicts come out and are cached.

Per RFC 5321, mail goes to the MX records, or to the domain's own address if there are none. Per RFC
7505, an MX record that names the root means that the domain takes no mail.
"""

import asyncio
import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdatatype
import dns.rdtypes.ANY.MX
import dns.resolver
from cachetools import TTLCache
from dns.nameserver import Do53Nameserver

from outrider.domain.errors import InvalidInput
from outrider.limits.phases import (
    DNS_CACHE_DOMAINS,
    DNS_CACHE_SECONDS,
    DNS_CONCURRENCY,
    DNS_PAUSE_SECONDS,
    DNS_TIMEOUT_SECONDS,
    DNS_TRIES,
)

DNS_PORT = 53


class Reception(Enum):
    RECEIVES = "receives"
    REFUSES = "refuses"
    UNKNOWN = "unknown"


class DomainVerdict(NamedTuple):
    reception: Reception
    why: str


HAS_MX = DomainVerdict(Reception.RECEIVES, "has an MX record")
HAS_ADDRESS = DomainVerdict(Reception.RECEIVES, "has an address of its own")
NULL_MX = DomainVerdict(Reception.REFUSES, "declares that it accepts no mail (null MX)")
NO_DOMAIN = DomainVerdict(Reception.REFUSES, "does not exist")
NO_HOST = DomainVerdict(Reception.REFUSES, "has neither an MX record nor an address")
NO_TIME = DomainVerdict(Reception.UNKNOWN, "its name servers did not answer in time")
NO_SERVER = DomainVerdict(Reception.UNKNOWN, "no name server could answer")


class MailDomains:
    """Shared by the jobs of a process: they have a common look-up limit and cache."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        timeout_seconds: float = DNS_TIMEOUT_SECONDS,
        tries: int = DNS_TRIES,
        concurrency: int = DNS_CONCURRENCY,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nameservers = [nameserver(text) for text in nameservers]
        self._timeout_seconds = timeout_seconds
        self._tries = tries
        self._turns = asyncio.Semaphore(concurrency)
        self._known: TTLCache[str, DomainVerdict] = TTLCache(
            DNS_CACHE_DOMAINS, DNS_CACHE_SECONDS, now
        )

    async def verdicts(self, domains: Iterable[str]) -> dict[str, DomainVerdict]:
        unique = list(dict.fromkeys(domains))
        try:
            resolver = make_resolver(self._nameservers, self._timeout_seconds)
        except dns.resolver.NoResolverConfiguration:
            return dict.fromkeys(unique, NO_SERVER)
        found = await asyncio.gather(*(self._verdict(resolver, domain) for domain in unique))
        return dict(zip(unique, found, strict=True))

    async def _verdict(self, resolver: dns.asyncresolver.Resolver, domain: str) -> DomainVerdict:
        known = self._known.get(domain)
        if known is not None:
            return known
        async with self._turns:
            verdict = await self._patiently(resolver, domain)
        if verdict.reception is not Reception.UNKNOWN:
            self._known[domain] = verdict
        return verdict

    async def _patiently(self, resolver: dns.asyncresolver.Resolver, domain: str) -> DomainVerdict:
        verdict = await look_up(resolver, domain)
        for _ in range(1, self._tries):
            if verdict.reception is not Reception.UNKNOWN:
                break
            await asyncio.sleep(DNS_PAUSE_SECONDS)
            verdict = await look_up(resolver, domain)
        return verdict


def make_resolver(
    nameservers: Sequence[Do53Nameserver], timeout_seconds: float
) -> dns.asyncresolver.Resolver:
    """Made for each job, so that a running worker notices a changed resolv.conf."""
    resolver = dns.asyncresolver.Resolver(configure=not nameservers)
    if nameservers:
        resolver.nameservers = list(nameservers)
    resolver.timeout = timeout_seconds
    # Each server is asked once per try; the caller decides on the number of tries.
    resolver.lifetime = timeout_seconds * max(1, len(resolver.nameservers))
    return resolver


async def look_up(resolver: dns.asyncresolver.Resolver, domain: str) -> DomainVerdict:
    """What DNS currently says about one domain."""
    # Fully qualified, so that no search list is applied.
    name = dns.name.from_text(domain + ".")
    exchanges = await answers(resolver, name, dns.rdatatype.MX)
    if isinstance(exchanges, DomainVerdict):
        return exchanges
    if exchanges:
        usable = any(
            isinstance(record, dns.rdtypes.ANY.MX.MX) and record.exchange != dns.name.root
            for record in exchanges
        )
        return HAS_MX if usable else NULL_MX
    doubt = None
    for kind in (dns.rdatatype.A, dns.rdatatype.AAAA):
        addresses = await answers(resolver, name, kind)
        if isinstance(addresses, DomainVerdict):
            doubt = doubt or addresses
        elif addresses:
            return HAS_ADDRESS
    return NO_HOST if doubt is None or doubt.reception is Reception.REFUSES else doubt


async def answers(
    resolver: dns.asyncresolver.Resolver, name: dns.name.Name, kind: dns.rdatatype.RdataType
) -> Sequence[object] | DomainVerdict:
    """The records, which may be none, or the verdict if DNS gives no records."""
    try:
        answer = await resolver.resolve(name, kind, raise_on_no_answer=False, search=False)
    except dns.resolver.NXDOMAIN:
        return NO_DOMAIN
    except dns.exception.Timeout:
        return NO_TIME
    except dns.exception.DNSException:
        return NO_SERVER
    return list(answer.rrset or ())


def nameserver(text: str) -> Do53Nameserver:
    """`127.0.0.1`, `127.0.0.1:5353`, `2001:db8::1` or `[2001:db8::1]:5353`."""
    try:
        host, port = text, DNS_PORT
        if text.startswith("[") or text.count(":") == 1:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname or "", parts.port or DNS_PORT
        return Do53Nameserver(str(ipaddress.ip_address(host)), port)
    except ValueError:
        raise InvalidInput(
            f"'{text}' is not the address of a name server",
            hint="use 127.0.0.1, 127.0.0.1:5353 or [::1]:5353",
        ) from None

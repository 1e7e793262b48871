"""Which mailbox provider receives a domain's mail, by its MX records: names go in, names come out.

Domains whose preferred mail servers belong to one organisation share its name. If DNS does not
answer in time, a domain stands for itself for a while.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdata
import dns.rdatatype
import dns.rdtypes.ANY.MX
from cachetools import TTLCache

from outrider.limits.phases import (
    MX_CACHE_DOMAINS,
    MX_CACHE_SECONDS,
    MX_CONCURRENCY,
    MX_FAILED_SECONDS,
    MX_WAIT_SECONDS,
)
from outrider.phases.mail_domains import make_resolver, nameserver

SHORT_LABEL = 3
"""In names such as mx.example.co.uk, the organisation has three labels."""


class MxProviders:
    """Shared by all routes of a process, with a cache of limited size."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        wait_seconds: float = MX_WAIT_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nameservers = [nameserver(text) for text in nameservers]
        self._wait_seconds = wait_seconds
        self._turns = asyncio.Semaphore(MX_CONCURRENCY)
        self._known: TTLCache[str, str] = TTLCache(MX_CACHE_DOMAINS, MX_CACHE_SECONDS, now)
        self._failed: TTLCache[str, bool] = TTLCache(MX_CACHE_DOMAINS, MX_FAILED_SECONDS, now)

    async def of(self, domains: Collection[str]) -> Mapping[str, str]:
        found = {each: self._known.get(each) for each in domains}
        unknown = [each for each, name in found.items() if not name and each not in self._failed]
        if unknown:
            found |= await self._look_up(unknown)
        return {domain: name or domain for domain, name in found.items()}

    async def _look_up(self, domains: Sequence[str]) -> Mapping[str, str]:
        """Those that were found in time; the others are not looked for again at once."""
        found: dict[str, str] = {}
        with suppress(TimeoutError, dns.exception.DNSException):
            resolver = make_resolver(self._nameservers, self._wait_seconds)
            async with asyncio.timeout(self._wait_seconds):
                await asyncio.gather(*(self._ask(resolver, each, found) for each in domains))
        for each in domains:
            if each in found:
                self._known[each] = found[each]
            else:
                self._failed[each] = True
        return found

    async def _ask(
        self, resolver: dns.asyncresolver.Resolver, domain: str, found: dict[str, str]
    ) -> None:
        with suppress(dns.exception.DNSException, OSError, UnicodeError):
            async with self._turns:
                # Fully qualified, so that no search list is applied.
                name = dns.name.from_text(domain + ".")
                answer = await resolver.resolve(name, dns.rdatatype.MX, raise_on_no_answer=False)
            found[domain] = _provider(answer.rrset or ()) or domain


def _provider(records: Iterable[dns.rdata.Rdata]) -> str:
    """Empty: it receives its mail itself, or none."""
    exchanges = [
        (each.preference, each.exchange.to_text())
        for each in records
        if isinstance(each, dns.rdtypes.ANY.MX.MX)
    ]
    return organisation(min(exchanges)[1]) if exchanges else ""


def organisation(host: str) -> str:
    """The part of a mail server's name that its owner registered."""
    labels = host.rstrip(".").lower().split(".")
    is_national = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= SHORT_LABEL
    return ".".join(labels[-3 if is_national else -2 :])

"""The records that a sender's domain has in DNS. None there is an answer; silence is not."""

import asyncio
from collections.abc import Sequence

import dns.name
import dns.rdatatype
import dns.resolver
import dns.reversename

from outrider.limits.phases import DNS_PAUSE_SECONDS, DNS_TIMEOUT_SECONDS, DNS_TRIES
from outrider.phases.mail_domains import (
    NO_SERVER,
    DomainVerdict,
    Reception,
    answers,
    make_resolver,
    nameserver,
)


class NoDnsAnswer(Exception):
    """Whether there is such a record is not known."""


class DnsRecords:
    """Asked for one job; what was asked once is remembered."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        timeout_seconds: float = DNS_TIMEOUT_SECONDS,
        tries: int = DNS_TRIES,
    ) -> None:
        self._servers = [nameserver(text) for text in nameservers]
        self._timeout_seconds, self._tries = timeout_seconds, tries
        self._known: dict[tuple[str, str], list[str]] = {}

    async def txt(self, name: str) -> list[str]:
        """Each record as one text, whatever strings it is cut into."""
        return await self._records(name, "TXT")

    async def addresses(self, name: str) -> list[str]:
        return [*await self._records(name, "A"), *await self._records(name, "AAAA")]

    async def exchanges(self, name: str) -> list[str]:
        return await self._records(name, "MX")

    async def names_of(self, address: str) -> list[str]:
        return await self._records(dns.reversename.from_address(address).to_text(), "PTR")

    async def _records(self, name: str, kind: str) -> list[str]:
        asked = name.rstrip(".").lower(), kind
        if asked not in self._known:
            self._known[asked] = await self._ask(*asked)
        return self._known[asked]

    async def _ask(self, name: str, kind: str) -> list[str]:
        try:
            whole = dns.name.from_text(name + ".")
        except dns.exception.DNSException as error:
            raise NoDnsAnswer(f"'{name}' is not a DNS name: {error}") from error
        found: Sequence[object] | DomainVerdict = NO_SERVER
        for number in range(self._tries):
            if number:
                await asyncio.sleep(DNS_PAUSE_SECONDS)
            try:
                resolver = make_resolver(self._servers, self._timeout_seconds)
            except dns.resolver.NoResolverConfiguration:
                break
            found = await answers(resolver, whole, dns.rdatatype.from_text(kind))
            if not isinstance(found, DomainVerdict):
                return [_text(record, kind) for record in found]
            if found.reception is not Reception.UNKNOWN:
                return []
        assert isinstance(found, DomainVerdict)
        raise NoDnsAnswer(f"{kind} of {name}: {found.why}")


def _text(record: object, kind: str) -> str:
    if kind == "TXT":
        strings: Sequence[bytes] = getattr(record, "strings", ())
        return b"".join(strings).decode("utf-8", "replace")
    value = getattr(record, {"MX": "exchange", "PTR": "target"}.get(kind, "address"))
    return str(value).rstrip(".").lower()

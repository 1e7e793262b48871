"""SPF (RFC 7208): may this address send mail for that domain?

Macros are not expanded: what depends on them is not known here.
"""

import ipaddress
from enum import StrEnum
from typing import NamedTuple

from outrider.limits.phases import SPF_EXCHANGES_MAX, SPF_LOOKUPS_MAX
from outrider.phases.dns_records import DnsRecords

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class SpfResult(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SOFT_FAIL = "softfail"
    NEUTRAL = "neutral"
    NONE = "none"
    ERROR = "permerror"
    UNKNOWN = "unknown"
    """It depends on a macro."""


_RESULTS = {
    "+": SpfResult.PASS, "-": SpfResult.FAIL, "~": SpfResult.SOFT_FAIL, "?": SpfResult.NEUTRAL,
}  # fmt: skip


class SpfVerdict(NamedTuple):
    result: SpfResult
    why: str


class _Broken(Exception):
    pass


class _Macro(Exception):
    pass


async def spf_record(records: DnsRecords, domain: str) -> list[str]:
    """All of the domain's SPF records; more than one is an error."""
    return [
        each
        for each in await records.txt(domain)
        if each.lower() == "v=spf1" or each.lower().startswith("v=spf1 ")
    ]


async def check_host(records: DnsRecords, address: str, domain: str) -> SpfVerdict:
    try:
        return await _Evaluation(records, ipaddress.ip_address(address)).of(domain)
    except _Broken as error:
        return SpfVerdict(SpfResult.ERROR, str(error))
    except _Macro as error:
        return SpfVerdict(SpfResult.UNKNOWN, str(error))


class _Evaluation:
    def __init__(self, records: DnsRecords, address: IpAddress) -> None:
        self._records, self._address, self._lookups = records, address, 0

    async def of(self, domain: str) -> SpfVerdict:
        found = await spf_record(self._records, domain)
        if not found:
            return SpfVerdict(SpfResult.NONE, f"{domain} has no SPF record")
        if len(found) > 1:
            raise _Broken(f"{domain} has {len(found)} SPF records instead of one")
        redirect = None
        for term in found[0].split()[1:]:
            name, equals, value = term.partition("=")
            if equals and not set(name) & set(":/"):
                redirect = value if name.lower() == "redirect" else redirect
                continue
            qualifier, mechanism = (term[0], term[1:]) if term[0] in _RESULTS else ("+", term)
            if await self._matches(mechanism, domain):
                return SpfVerdict(_RESULTS[qualifier], f"{term} of {domain}")
        if redirect is None:
            return SpfVerdict(SpfResult.NEUTRAL, f"no mechanism of {domain} names {self._address}")
        self._look_up(redirect)
        verdict = await self.of(redirect)
        if verdict.result is SpfResult.NONE:
            raise _Broken(f"{domain} redirects to {redirect}, which has no SPF record")
        return verdict

    async def _matches(self, mechanism: str, domain: str) -> bool:
        name, value = _split(mechanism)
        match name:
            case "all":
                return True
            case "ip4" | "ip6":
                return self._is_in(value[1:])
            case "include":
                included = value[1:]
                self._look_up(included)
                verdict = await self.of(included)
                if verdict.result is SpfResult.NONE:
                    raise _Broken(f"{domain} includes {included}, which has no SPF record")
                return verdict.result is SpfResult.PASS
            case "a" | "mx":
                host, prefixes = _host(value, domain)
                self._look_up(host)
                hosts = [host] if name == "a" else await self._records.exchanges(host)
                for each in hosts[:SPF_EXCHANGES_MAX]:
                    if await self._is_one_of(each, prefixes):
                        return True
                return False
            case "exists":
                self._look_up(value[1:])
                return bool(await self._records.addresses(value[1:]))
            case "ptr":
                self._look_up(value[1:] or domain)
                # RFC 7208, 5.5, advises against it, and receivers against relying on it.
                return False
            case _:
                raise _Broken(f"'{mechanism}' in the SPF record of {domain} is no mechanism")

    def _look_up(self, name: str) -> None:
        if "%" in name:
            raise _Macro(f"the SPF record depends on the macro {name}")
        self._lookups += 1
        if self._lookups > SPF_LOOKUPS_MAX:
            raise _Broken(f"the SPF record needs more than {SPF_LOOKUPS_MAX} DNS look-ups")

    def _is_in(self, network: str) -> bool:
        try:
            return self._address in ipaddress.ip_network(network, strict=False)
        except ValueError:
            raise _Broken(f"'{network}' in the SPF record is not a network") from None

    async def _is_one_of(self, host: str, prefixes: tuple[str, str]) -> bool:
        prefix = prefixes[0] if self._address.version == 4 else prefixes[1]
        return any(
            self._is_in(f"{each}{prefix}")
            for each in await self._records.addresses(host)
            if ipaddress.ip_address(each).version == self._address.version
        )


def _split(mechanism: str) -> tuple[str, str]:
    """`a:host/24` is `a` and `:host/24`."""
    for at, letter in enumerate(mechanism):
        if letter in ":/":
            return mechanism[:at].lower(), mechanism[at:]
    return mechanism.lower(), ""


def _host(value: str, domain: str) -> tuple[str, tuple[str, str]]:
    """The host, and the lengths of the networks around its IPv4 and IPv6 addresses."""
    host, slash, lengths = value.removeprefix(":").partition("/")
    first, _, second = (
        lengths.partition("//") if not lengths.startswith("/") else ("", "", lengths[1:])
    )
    return host or domain, (f"/{first}" if slash and first else "", f"/{second}" if second else "")

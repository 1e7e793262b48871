"""What mailbox providers ask of senders of many messages, one check each.

Gmail: https://support.google.com/mail/answer/81126
Yahoo: https://senders.yahooinc.com/best-practices/

A finding says what is there and, unless all is well, what to do about it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from outrider.gateways.address_guard import is_public
from outrider.gateways.dkim import DkimSigner
from outrider.gateways.mail_sender import MailSender
from outrider.limits.phases import SENDER_ADDRESSES_MAX, SENDER_RECORD_SHOWN_CHARACTERS
from outrider.phases.dmarc import (
    DmarcPolicy,
    TwoPolicies,
    organisational_domain,
    policies_above,
    tags_of,
)
from outrider.phases.dns_records import DnsRecords, NoDnsAnswer
from outrider.phases.spf import SpfResult, check_host, spf_record

RSA_BITS: Final = 2048
MAILBOX_PROVIDERS: Final = frozenset(
    {"gmail.com", "googlemail.com", "yahoo.com", "aol.com", "outlook.com", "hotmail.com",
     "icloud.com", "gmx.de", "web.de"}
)  # fmt: skip
ASK_AGAIN: Final = "DNS gave no answer: run this phase again later, or check the name servers."
SAY_ADDRESSES: Final = (
    "Set the option 'sendsFrom' to the IP addresses from which the mail server sends to the world."
)


class State(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True)
class SenderFinding:
    check: str
    state: State
    found: str
    hint: str = ""

    def as_document(self) -> dict[str, str]:
        document = {"check": self.check, "state": self.state.value, "found": self.found}
        return {**document, "hint": self.hint} if self.hint else document


class SenderChecks:
    """One target's sender, checked for one campaign."""

    def __init__(
        self, sender: MailSender, records: DnsRecords, *, one_click: bool, has_links: bool
    ) -> None:
        """`one_click`: its messages can be unsubscribed from; `has_links`: each has its own link
        for that."""
        self._sender, self._records = sender, records
        self._one_click, self._has_links = one_click, has_links

    async def findings(self) -> list[SenderFinding]:
        return [await self._found(name, check) for name, check in CHECKS.items()]

    async def _found(
        self, name: str, check: "Callable[[SenderChecks], Awaitable[tuple[State, str, str]]]"
    ) -> SenderFinding:
        try:
            return SenderFinding(name, *await check(self))
        except NoDnsAnswer as error:
            return SenderFinding(name, State.UNKNOWN, str(error), ASK_AGAIN)
        except TwoPolicies as error:
            return SenderFinding(name, State.FAILED, str(error), "Remove all but one of them.")

    async def sender_domain(self) -> tuple[State, str, str]:
        sender = self._sender
        if sender.from_domain in MAILBOX_PROVIDERS:
            return (
                State.FAILED, f"the sender's domain is {sender.from_domain}",
                "Send from a domain of your own: mailbox providers refuse their own names.",
            )  # fmt: skip
        for domain in dict.fromkeys((sender.from_domain, sender.envelope_domain)):
            takes_mail = [each for each in await self._records.exchanges(domain) if each]
            if not takes_mail and not await self._records.addresses(domain):
                return (
                    State.FAILED, f"{domain} has neither an MX record nor an address",
                    f"Give {domain} an MX record: answers and bounces go there.",
                )  # fmt: skip
        return State.PASSED, f"{sender.from_domain} and {sender.envelope_domain} receive mail", ""

    async def spf(self) -> tuple[State, str, str]:
        domain = self._sender.envelope_domain
        found = await spf_record(self._records, domain)
        if not found:
            return (
                State.FAILED, f"{domain} has no SPF record",
                f'Publish a TXT record for {domain}: "v=spf1 ip4:ADDRESS -all", with the addresses'
                " of your mail server.",
            )  # fmt: skip
        addresses = await self._addresses()
        if not addresses:
            return State.UNKNOWN, f"{domain}: {_shown(found[0])}", SAY_ADDRESSES
        for address in addresses:
            result, why = await check_host(self._records, address, domain)
            if result is SpfResult.UNKNOWN:
                return State.UNKNOWN, f"{address}: {why}", "Check it with a message that you send."
            if result is not SpfResult.PASS:
                return (
                    State.FAILED, f"{result.value} for {address}: {why}",
                    f"Let the SPF record of {domain} name {address}.",
                )  # fmt: skip
            if why.startswith(("+all ", "all ")):
                return (
                    State.FAILED, f"{why} lets everybody send in its name",
                    "End the SPF record with -all or ~all.",
                )  # fmt: skip
        return State.PASSED, f"{domain} lets {', '.join(addresses)} send", ""

    async def dkim(self) -> tuple[State, str, str]:
        signers = self._sender.signers
        if not signers:
            return (
                State.FAILED, "Outrider does not sign this target's mail",
                "Set 'dkimSelector' and the credential 'dkimKey'. If the mail server signs, look at"
                " the DKIM-Signature of a message that it delivered.",
            )  # fmt: skip
        for signer in signers:
            problem = await self._dkim_problem(signer)
            if problem is not None:
                return State.FAILED, *problem
        named = ", ".join(f"{each.name} ({each.key.algorithm})" for each in signers)
        return State.PASSED, f"the keys in DNS are those that sign: {named}", ""

    async def _dkim_problem(self, signer: DkimSigner) -> tuple[str, str] | None:
        publish = f'Publish a TXT record for {signer.name}: "{signer.key.record}"'
        found = await self._records.txt(signer.name)
        if not found:
            return f"{signer.name} has no TXT record", publish
        if len(found) > 1:
            return f"{signer.name} has {len(found)} TXT records", "Remove all but one of them."
        tags = tags_of(found[0])
        if tags.get("v", "DKIM1") != "DKIM1" or tags.get("k", "rsa") != signer.key.kind:
            return f"{signer.name} is not the record of such a key: {_shown(found[0])}", publish
        if "".join(tags.get("p", "").split()) != signer.key.public:
            return f"{signer.name} has another key than the one that signs", publish
        if "y" in tags.get("t", "").split(":"):
            return f"{signer.name} says t=y, a test", "Remove t=y: receivers ignore tests."
        if signer.key.kind == "rsa" and signer.key.bits < RSA_BITS:
            return (
                f"the RSA key of {signer.name} has {signer.key.bits} bits",
                f"Make a key of {RSA_BITS} bits under a new selector.",
            )
        return None

    async def dmarc(self) -> tuple[State, str, str]:
        domain = self._sender.from_domain
        policy = await self._policy()
        if policy is None:
            return (
                State.FAILED, f"_dmarc.{domain} has no DMARC record",
                f'Publish a TXT record for _dmarc.{domain}: "v=DMARC1; p=none;'
                f' rua=mailto:dmarc@{domain}".',
            )  # fmt: skip
        if policy.policy not in ("none", "quarantine", "reject"):
            return (
                State.FAILED, f"_dmarc.{policy.domain} has no valid policy: p={policy.policy}",
                "Set p=none to begin with, then quarantine or reject.",
            )  # fmt: skip
        found = f"_dmarc.{policy.domain} says p={policy.policy}"
        if policy.policy == "none":
            return State.PASSED, found, "Once all your mail passes, use p=quarantine or p=reject."
        return State.PASSED, found, ""

    async def alignment(self) -> tuple[State, str, str]:
        sender, policy = self._sender, await self._policy()
        for signer in sender.signers:
            if await self._is_aligned(signer.domain, policy, "adkim"):
                return State.PASSED, f"DKIM signs as {signer.domain}, for {sender.from_domain}", ""
        if await self._is_aligned(sender.envelope_domain, policy, "aspf"):
            found = f"the return path is at {sender.envelope_domain}, for {sender.from_domain}"
            return State.PASSED, found, "Also sign with DKIM: SPF does not survive forwarding."
        return (
            State.FAILED, f"nothing that is checked belongs to {sender.from_domain}",
            f"Let 'dkimDomain' be {sender.from_domain}, or 'returnPath' be at a domain below it.",
        )  # fmt: skip

    async def one_click(self) -> tuple[State, str, str]:
        if not self._one_click:
            return State.NOT_NEEDED, "its messages are transactional", ""
        if self._has_links or self._sender.has_list_unsubscribe:
            if not self._sender.signers:
                return (
                    State.FAILED, "List-Unsubscribe is not signed",
                    "Sign with DKIM: one-click unsubscribing has to be covered by it (RFC 8058).",
                )  # fmt: skip
            return State.PASSED, "messages have List-Unsubscribe and List-Unsubscribe-Post", ""
        return (
            State.FAILED, "messages have no List-Unsubscribe",
            "Set OUTRIDER_PUBLIC_URL, so that Outrider answers the links, or the option"
            " 'listUnsubscribe'. If they are transactional, say so in the campaign.",
        )  # fmt: skip

    async def ptr(self) -> tuple[State, str, str]:
        addresses = await self._addresses()
        if not addresses:
            return State.UNKNOWN, f"{self._sender.host} has no public address", SAY_ADDRESSES
        for address in addresses:
            names = await self._records.names_of(address)
            if not names:
                return (
                    State.FAILED, f"{address} has no PTR record",
                    f"Ask the owner of {address}, usually your hosting company, for one.",
                )  # fmt: skip
            if not [each for each in names if address in await self._records.addresses(each)]:
                return (
                    State.FAILED, f"{address} is called {names[0]}, which has another address",
                    f"Give {names[0]} an address record with {address}.",
                )  # fmt: skip
        return State.PASSED, f"{', '.join(addresses)}: PTR and address records agree", ""

    async def tls(self) -> tuple[State, str, str]:
        if self._sender.is_encrypted:
            return State.PASSED, "mail leaves over TLS where the mail server offers it", ""
        return (
            State.FAILED, "mail leaves unencrypted",
            "Remove starttls = \"off\", or use smtps:// in gatewayUrl.",
        )  # fmt: skip

    async def _policy(self) -> DmarcPolicy | None:
        """The domain's own policy, or else that of its organisation."""
        found = await policies_above(self._records, self._sender.from_domain)
        if not found:
            return None
        return found[0] if found[0].domain == self._sender.from_domain else found[-1]

    async def _is_aligned(self, domain: str, policy: DmarcPolicy | None, tag: str) -> bool:
        wanted = self._sender.from_domain
        if domain == wanted or (policy is not None and policy.is_strict(tag)):
            return domain == wanted
        if policy is None:
            # Without any policy there is no organisation to ask for: one is above the other.
            return domain.endswith(f".{wanted}") or wanted.endswith(f".{domain}")
        return await organisational_domain(self._records, domain) == await organisational_domain(
            self._records, wanted
        )

    async def _addresses(self) -> list[str]:
        """What receivers see: as the target says, or else the public addresses of its server."""
        given = list(self._sender.sends_from)
        if not given:
            host = self._sender.host
            if ":" in host or host.replace(".", "").isdigit():
                given = [host]
            elif "." in host:
                given = await self._records.addresses(host)
            given = [each for each in given if is_public(each)]
        return given[:SENDER_ADDRESSES_MAX]


CHECKS: Final[dict[str, Callable[[SenderChecks], Awaitable[tuple[State, str, str]]]]] = {
    "sender_domain": SenderChecks.sender_domain,
    "spf": SenderChecks.spf,
    "dkim": SenderChecks.dkim,
    "dmarc": SenderChecks.dmarc,
    "alignment": SenderChecks.alignment,
    "one_click": SenderChecks.one_click,
    "ptr": SenderChecks.ptr,
    "tls": SenderChecks.tls,
}


def _shown(record: str) -> str:
    return record[:SENDER_RECORD_SHOWN_CHARACTERS]

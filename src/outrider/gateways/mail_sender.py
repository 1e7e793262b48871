"""What receivers can check of a target's mail: its domains, signatures and addresses."""

import ipaddress
from dataclasses import dataclass, replace
from typing import Final

from outrider.domain.errors import InvalidInput
from outrider.gateways.dkim import DkimSigner

SENDS_FROM_OPTION: Final = "sendsFrom"


@dataclass(frozen=True, slots=True)
class MailSender:
    from_domain: str
    envelope_domain: str
    signers: tuple[DkimSigner, ...]
    has_list_unsubscribe: bool
    is_encrypted: bool
    """TLS to the mail server, where it is not on this machine."""
    host: str
    sends_from: tuple[str, ...] = ()
    """The addresses that receivers see, if the target says so; otherwise those of its server."""

    def sending_from(self, domain: str) -> "MailSender":
        """The same, with a From of a campaign's own. A return path of the target stays."""
        follows = self.envelope_domain == self.from_domain
        return replace(
            self, from_domain=domain, envelope_domain=domain if follows else self.envelope_domain
        )


def read_addresses(text: str | None) -> tuple[str, ...]:
    """`192.0.2.1, 2001:db8::1`"""
    try:
        return tuple(
            str(ipaddress.ip_address(each.strip())) for each in (text or "").split(",") if each
        )
    except ValueError:
        raise InvalidInput(
            f"the option '{SENDS_FROM_OPTION}' is not a list of IP addresses",
            hint="for example 192.0.2.1, 2001:db8::1",
        ) from None

"""Domain names: the domain or mailbox provider under which a recipient's limits are known."""

from collections.abc import Collection, Mapping

from outrider.domain.domain_limits import DomainShaping, domain_of
from outrider.ports.mail_providers import MailProviders

NO_DOMAIN = ""
"""Of what has no mail address: nothing limits it."""


async def bucket_names(
    providers: MailProviders, shaping: DomainShaping, addresses: Collection[str | None]
) -> Mapping[str | None, str]:
    """For each address, its own domain if that has limits, and its mailbox provider otherwise."""
    domains = {address: domain_of(address) for address in addresses}
    asked = {each for each in domains.values() if each and each not in shaping.named}
    known = await providers.of(sorted(asked)) if asked else {}
    return {
        address: NO_DOMAIN if domain is None else known.get(domain, domain)
        for address, domain in domains.items()
    }

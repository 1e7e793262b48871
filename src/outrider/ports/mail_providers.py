"""The mail providers port: which mailbox provider receives the mail of a domain."""

from collections.abc import Collection, Mapping
from typing import Protocol


class MailProviders(Protocol):
    async def of(self, domains: Collection[str]) -> Mapping[str, str]:
        """The provider of each domain; the domain itself where that is not known. It never raises
        and never waits for long."""
        ...

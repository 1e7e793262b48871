"""The address census: whether an audience may contain an address twice, in bounded memory.

A new audience rarely repeats an address, and then the database can skip its duplicate check.
"""

from collections.abc import Iterable

from outrider.domain.recipients import Recipient


class AddressCensus:
    def __init__(self, most_addresses: int) -> None:
        self._most = most_addresses
        self._seen: set[int] = set()
        self._counted = 0
        self.may_repeat = False
        """False only if every address occurred once. A hash collision, one address used by two
        messages, or more addresses than fit also make it True."""

    def take(self, recipients: Iterable[Recipient]) -> None:
        if self.may_repeat:
            return
        addresses = [
            address
            for each in recipients
            for address in (each.email and each.email.lower(), each.phone, each.push_token)
            if address
        ]
        self._seen.update(map(hash, addresses))
        self._counted += len(addresses)
        if len(self._seen) < self._counted or self._counted > self._most:
            self.may_repeat = True
            self._seen.clear()

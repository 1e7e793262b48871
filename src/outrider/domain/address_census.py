"""The address census: whether an address may have come twice, in memory that has an end.

Of a new audience nearly always none has, and then the database need not look for any.
"""

from collections.abc import Iterable

from outrider.domain.recipients import Recipient


class AddressCensus:
    def __init__(self, most_addresses: int) -> None:
        self._most = most_addresses
        self._seen: set[int] = set()
        self._counted = 0
        self.may_repeat = False
        """False: every address came once. Two that only look alike make it True, and so does one
        that came twice for two messages, or more than can be remembered."""

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

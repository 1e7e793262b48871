"""A target's credential, as its gateway uses it."""

import time
from collections.abc import Callable
from contextlib import suppress

from outrider.domain.errors import InvalidInput, OutriderError
from outrider.gateways.family import Target
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS


class Credential:
    """A secret that is re-read periodically: some tokens live for an hour, gateways longer."""

    def __init__(
        self,
        target: Target,
        name: str,
        value: str,
        *,
        is_sent: bool = True,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._name, self._seconds = target, name, seconds
        self._is_sent = is_sent
        self._value, self._read_at = self._usable(value), seconds()

    def value(self) -> str:
        if self._seconds() - self._read_at >= CREDENTIAL_REREAD_SECONDS:
            self.read_again()
        return self._value

    def read_again(self) -> None:
        self._read_at = self._seconds()
        # The file is being rotated: the provider judges the old value.
        with suppress(OutriderError, ValueError):
            self._value = self._usable(self._target.credential(self._name))

    def _usable(self, value: str) -> str:
        value = value.strip()
        if not value or (self._is_sent and not (value.isascii() and value.isprintable())):
            raise InvalidInput(
                f"the credential '{self._name}' of submission target '{self._target.name}' "
                "cannot be sent",
                hint="it must be non-empty printable ASCII",
            )
        return value

    @property
    def reference(self) -> str:
        """The reference of its value, which may be shown."""
        return self._target.settings.credentials[self._name]

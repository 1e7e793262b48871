"""Whose name a target's mail is signed in: its options, and keys by reference.

`dkimSelector` and the credential `dkimKey` belong together, and so do `dkimSelector2` and
`dkimKey2`: with one RSA and one Ed25519 key, every receiver finds a signature that it can verify.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

from outrider.domain.errors import InvalidInput, OutriderError
from outrider.gateways.dkim import DkimSigner, is_dns_name, read_key, signed
from outrider.gateways.family import Target
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS

DOMAIN_OPTION: Final = "dkimDomain"
SELECTOR_OF: Final = {"dkimKey": "dkimSelector", "dkimKey2": "dkimSelector2"}
"""By credential."""
DKIM_OPTIONS: Final = frozenset({DOMAIN_OPTION, *SELECTOR_OF.values()})
DKIM_CREDENTIALS: Final = frozenset(SELECTOR_OF)


class DkimSigners:
    """A target's signatures. A key is read again every minute, like every credential."""

    def __init__(
        self, target: Target, domain: str, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """`domain` is the sender's, which signs unless the target names another."""
        self._target, self._domain, self._seconds = target, domain, seconds
        self._texts = dict(self._read())
        self._signers = self._made()
        self._read_at = seconds()

    @property
    def signers(self) -> tuple[DkimSigner, ...]:
        if self._signers and self._seconds() - self._read_at >= CREDENTIAL_REREAD_SECONDS:
            self._read_again()
        return self._signers

    def signed(self, message: bytes, now: datetime) -> bytes:
        signers = self.signers
        return signed(message, signers, now) if signers else message

    def _read(self) -> Iterator[tuple[str, str]]:
        target = self._target
        for credential, option in SELECTOR_OF.items():
            if credential in target.settings.credentials:
                target.option(option)
                yield credential, target.credential(credential)
            elif option in target.settings.options:
                # Half a set-up would send everything unsigned.
                target.credential(credential)
        if DOMAIN_OPTION in target.settings.options and not (
            DKIM_CREDENTIALS & target.settings.credentials.keys()
        ):
            target.credential("dkimKey")

    def _made(self) -> tuple[DkimSigner, ...]:
        if not self._texts:
            return ()
        domain = _dns_name(self._target, DOMAIN_OPTION, self._domain)
        return tuple(
            DkimSigner(domain, _dns_name(self._target, SELECTOR_OF[name]), read_key(text))
            for name, text in self._texts.items()
        )

    def _read_again(self) -> None:
        self._read_at = self._seconds()
        # The file is being rotated: the old key stays in use a little longer.
        with suppress(OutriderError, ValueError):
            texts = dict(self._read())
            if texts != self._texts:
                before, self._texts = self._texts, texts
                try:
                    self._signers = self._made()
                except OutriderError:
                    self._texts = before


def _dns_name(target: Target, option: str, default: str | None = None) -> str:
    given = target.option(option, default)
    if not is_dns_name(given):
        raise InvalidInput(
            f"the option '{option}' of submission target '{target.name}' is not a DNS name",
            hint="for example s2026 for a selector, example.com for a domain",
        )
    return given.lower()

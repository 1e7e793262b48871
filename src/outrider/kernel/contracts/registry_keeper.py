"""The registry keeper: which contracts are in force, and how another registry replaces them.

The bytes are validated as a whole first; then the file is replaced, then the contracts, by one
assignment. Readers see the old contracts or the new ones and never a mixture.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

import structlog

from outrider.domain.errors import InvalidInput
from outrider.domain.submission import Contract
from outrider.ports.registry_file import RegistryFile

log = structlog.get_logger()

Contracts = Mapping[str, Contract]
Parse = Callable[[bytes], Contracts]
"""Registry bytes → the contracts by submission target, or InvalidInput with every problem."""


class Written(NamedTuple):
    """The registry as stored in the file, and the contracts it defines."""

    raw: bytes
    contracts: Contracts


class RegistryKeeper:
    def __init__(self, file: RegistryFile, parse: Parse) -> None:
        self._file = file
        self._parse = parse
        self._in_force: Contracts | None = None
        # One change at a time, so that file and memory cannot diverge.
        self._changing = Lock()

    def contracts(self) -> Contracts:
        """The contracts in force now. They are immutable; call again to see a change."""
        in_force = self._in_force
        if in_force is not None:
            return in_force
        with self._changing:
            if self._in_force is None:
                self._in_force = self._judged(self._file.read())
            return self._in_force

    def judged(self, raw: bytes) -> Contracts:
        """The contracts that these bytes define; InvalidInput with every problem."""
        return self._judged(raw)

    def replace(self, raw: bytes) -> Contracts:
        """Put another registry in force, on disk first; InvalidInput leaves everything unchanged.

        It waits for the disk, so a server calls it in a thread.
        """
        new = self._judged(raw)
        with self._changing:
            self._file.write(raw)
            self._in_force = new
        log.info("registry_replaced", targets=len(new))
        return new

    def written(self) -> Written | None:
        """The contents of the file; None if it is missing or invalid."""
        try:
            raw = self._file.read()
            return Written(raw, self._judged(raw))
        except InvalidInput:
            return None

    def adopt(self, raw: bytes) -> None:
        """Like `replace`, for a registry already in force elsewhere: it takes effect here even if
        this machine's file cannot be written."""
        new = self._judged(raw)
        with self._changing:
            try:
                self._file.write(raw)
            except InvalidInput as error:
                log.warning("registry_not_written", error=error.message)
            self._in_force = new
        log.info("registry_adopted", targets=len(new))

    def reload(self) -> bool:
        """Read the file again; an invalid file is reported and the contracts in force stay."""
        try:
            with self._changing:
                new = self._in_force = self._judged(self._file.read())
        except InvalidInput as error:
            log.error(
                "registry_reload_refused",
                reason=error.message,
                problems=[str(problem) for problem in error.problems],
            )
            return False
        log.info("registry_reloaded", targets=len(new))
        return True

    def _judged(self, raw: bytes) -> Contracts:
        return MappingProxyType(dict(self._parse(raw)))

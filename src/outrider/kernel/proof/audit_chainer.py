"""The audit chainer: gives entries of the audit log their place in their workspace's hash chain.

It follows a moment after the entries are written: whoever writes one waits for nobody.
"""

import structlog

from outrider.domain.errors import StoreError
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import chains
from outrider.limits.proof import AUDIT_CHAIN_ENTRIES, AUDIT_CHAIN_SECONDS

log = structlog.get_logger()


class AuditChainer:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock

    async def chain(self) -> int:
        """Chain everything that waits, window by window; returns how many entries."""
        chained = 0
        while await self._store.read(chains.is_audit_unchained()):
            # Another process may hold those that are left.
            if not (added := await self._store.write(chains.chain_audit(AUDIT_CHAIN_ENTRIES))):
                break
            chained += added
        return chained

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                await self.chain()
            except StoreError as error:
                log.warning("audit_not_chained", error=error.message)
            await self._clock.sleep(AUDIT_CHAIN_SECONDS)

"""The registry follower: propagates a registry replaced on one server to all the others.

A replacement goes to that server's disk, and to the database as a revision. The other servers see
the new number, validate the document themselves and adopt it, on their disks too.
"""

import asyncio
import hashlib

import structlog

from outrider.domain.contracts import contract_text
from outrider.domain.errors import InvalidInput, StoreError
from outrider.domain.ids import Scope
from outrider.kernel.contracts.registry_keeper import Contracts, RegistryKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import registry_revisions
from outrider.kernel.transactions.registry_revisions import Revision

log = structlog.get_logger()


def registry_sha256(contracts: Contracts) -> str:
    """Of the terms alone: two files with the same terms are the same registry."""
    texts = "\n".join(contract_text(contracts[name]) for name in sorted(contracts))
    return hashlib.sha256(texts.encode()).hexdigest()


class RegistryFollower:
    def __init__(self, foundation: Foundation, keeper: RegistryKeeper) -> None:
        self._store = foundation.store
        self._keeper = keeper
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._seen: int | None = None
        """The revision that this process has handled; None until its first check."""
        self._changing = asyncio.Lock()

    async def replace(self, scope: Scope, raw: bytes, actor: str) -> Contracts:
        """Put another registry in force, here at once and soon everywhere; InvalidInput leaves
        everything unchanged. A registry that cannot be published is not put in force here
        either."""
        async with self._changing:
            before = await asyncio.to_thread(self._keeper.written)
            replaced = None if before is None else registry_sha256(before.contracts)
            new = await asyncio.to_thread(self._keeper.replace, raw)
            detail = {"targets": len(new), "sha256": hashlib.sha256(raw).hexdigest()}
            try:
                self._seen = await self._store.write(
                    registry_revisions.publish(
                        scope, raw.decode(errors="replace"), registry_sha256(new), replaced,
                        dict(detail), actor, self._ids, self._clock.now(),
                    )
                )  # fmt: skip
            except StoreError:
                if before is not None:
                    await asyncio.to_thread(self._keeper.replace, before.raw)
                raise
            return new

    async def refresh(self) -> None:
        """Adopt what another server was given since the last check, if anything."""
        async with self._changing:
            revision = await self._store.read(registry_revisions.latest_revision())
            if revision == (self._seen or 0) and self._seen is not None:
                return
            latest = await self._store.read(registry_revisions.latest())
            if latest is not None and await self._is_wanted(latest):
                await self._take_over(latest)
            self._seen = revision

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("registry_not_followed", error=error.message)
            await self._clock.sleep(self._limits.registry_look_seconds)

    async def _is_wanted(self, latest: Revision) -> bool:
        """Always, for a revision published while this process ran. At start-up, unless the file was
        edited by hand: a file that is merely outdated matches an earlier revision."""
        before = await asyncio.to_thread(self._keeper.written)
        if before is None:
            return True
        own = registry_sha256(before.contracts)
        if own == latest.sha256:
            return False
        if self._seen is not None:
            return True
        if await self._store.read(registry_revisions.is_outdated(own)):
            return True
        log.warning("registry_file_differs", revision=latest.revision)
        return False

    async def _take_over(self, latest: Revision) -> None:
        try:
            await asyncio.to_thread(self._keeper.adopt, latest.document.encode())
        except InvalidInput as error:
            # This process is older than the one that accepted it, and keeps its current registry.
            log.error(
                "registry_revision_refused",
                revision=latest.revision,
                problems=[str(problem) for problem in error.problems],
            )

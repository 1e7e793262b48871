"""Runs that have ended and are sealed, with receipts that come later; the clock is the test's."""

import os
from pathlib import Path

from outrider.domain.ids import OutboxId, RunId
from outrider.domain.receipts import ReceiptEvent
from outrider.files.artifact_store import LocalArtifacts
from outrider.kernel.proof.audit_chainer import AuditChainer
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.database_verifier import DatabaseVerifier, Verification
from outrider.kernel.proof.run_sealer import RunSealer
from outrider.kernel.proof.seal_verifier import SealVerifier
from outrider.kernel.transactions import seals
from outrider.kernel.transactions.seals import StoredSeal
from outrider.ports.store import Store
from outrider.secrets.signing import EvidenceKey, is_signed
from outrider.secrets.store import load_secrets
from outrider.testing.store_suite.workshop import NOON
from tests.support.raw_sql import raw_sql
from tests.support.receipt_scene import Scene


class SealScene:
    def __init__(self, store: Store, database: str, folder: Path) -> None:
        self.scene = Scene(store, NOON)
        self.clock = self.scene.clock
        self._store = store
        self._database = database
        self.foundation = self.scene.foundation
        self.key = EvidenceKey(None, load_secrets(), folder)
        self.sealer = RunSealer(self.foundation, self.key, os.urandom)
        self._artifacts = LocalArtifacts(folder / "artifacts")
        self._chainer = AuditChainer(self.foundation)

    async def ended(self, count: int = 3) -> tuple[RunId, list[OutboxId]]:
        """A run whose items were all accepted, and which has ended."""
        run_id, _, items = await self.scene.sent(count)
        async with raw_sql(self._database) as raw:
            await raw.complete_runs()
        return run_id, items

    async def sealed(self, count: int = 3) -> tuple[RunId, list[OutboxId]]:
        run_id, items = await self.ended(count)
        assert await self.sealer.seal_due() == 1
        await self._chainer.chain()
        return run_id, items

    async def reported(self, item: OutboxId) -> None:
        await self.scene.take(ReceiptEvent.DELIVERED, item)
        await self.scene.match()

    async def seals(self, run_id: RunId) -> list[StoredSeal]:
        return await self._store.read(seals.of_run(run_id))

    async def verified(self) -> Verification:
        verifier = SealVerifier(self.foundation, self.key, is_signed)
        bundles = BundleVerifier(is_signed)
        return await DatabaseVerifier(self.foundation, verifier, bundles, self._artifacts).verify()

    async def findings(self) -> list[tuple[str, str, str]]:
        """Without the event that `complete_runs` has appended by hand."""
        return [
            (each.what, each.how, each.which)
            for each in (await self.verified()).findings
            if each.what != "run_event"
        ]

"""The run sealer: after a run's end, seals its ledger and receipts under one signed document.

It reads in pages and rests between them, so that sending goes first. Receipts go on coming: a run
is looked at again after an hour, and then whenever it has become twice as old, and sealed anew if
there is more. It never seals over a row that had ended and is different now.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import OutriderError, StoreRefused
from outrider.domain.ids import RunId
from outrider.domain.merkle import MerkleRoot, leaf_hash
from outrider.domain.seals import Seal, SealComparison, SealedLeaf, packed, unpacked
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import chains, sealed_rows, seals
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.sealed_rows import SealedRow
from outrider.kernel.transactions.seals import EndedRun, StoredSeal, Tree
from outrider.limits.proof import (
    RESEAL_FIRST_SECONDS,
    RESEAL_UNTIL_SECONDS,
    SALT_BYTES,
    SEAL_HELD_SECONDS,
    SEAL_LOOK_SECONDS,
    SEAL_PAGE_ROWS,
    SEAL_REST_SHARE,
)
from outrider.ports.signing import Signer

log = structlog.get_logger()


@dataclass(slots=True)
class SealedTree:
    """One tree in the making, against the same tree of the seal before."""

    kind: Tree
    root: MerkleRoot = field(default_factory=MerkleRoot)
    open_rows: int = 0
    compared: SealComparison = field(default_factory=SealComparison)


class RunSealer:
    def __init__(
        self, foundation: Foundation, signer: Signer, entropy: Callable[[int], bytes]
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._signer = signer
        self._entropy = entropy

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                await self.seal_due()
            except OutriderError as error:
                log.warning("runs_not_sealed", error=error.message)
            await self._clock.sleep(SEAL_LOOK_SECONDS)

    async def seal_due(self) -> int:
        """Seal every run that is due; returns how many seals were made."""
        made = 0
        while await self._store.read(seals.is_due(now := self._clock.now())):
            until = now + timedelta(seconds=SEAL_HELD_SECONDS)
            run = await self._store.write(seals.claim_ended(now, until))
            run = run or await self._store.write(seals.claim_sealed(now, until))
            if run is None:
                # Another process holds what is due.
                break
            made += await self._seal(run)
        return made

    async def seal_now(self, run: EndedRun) -> None:
        """Before its time: who wants evidence now wants all receipts in it."""
        with contextlib.suppress(StoreRefused):
            # Another process has just made the same seal.
            await self._seal(run)

    async def _seal(self, run: EndedRun) -> bool:
        stored = await self._store.read(seals.of_run(run.run_id))
        before = stored[-1].parsed() if stored else None
        reported = await self._store.read(seals.reported(run.run_id))
        if before and not run.ended_anew and not before.open_rows and before.reported == reported:
            await self._store.write(seals.seen(run, self._next_look(run)))
            return False
        chained = await self._store.read(chains.run(run.run_id))
        assert chained is not None
        number = len(stored) + 1
        erased = await self._store.read(seals.erasures(run.run_id))
        salt = stored[-1].salt if stored else self._entropy(SALT_BYTES)
        ledger, receipts = SealedTree(Tree.LEDGER), SealedTree(Tree.RECEIPTS)
        await self._read(run, salt, number, ledger, receipts)
        if before and not run.ended_anew and _is_tampered(run.run_id, ledger, receipts):
            await self._store.write(seals.seen(run, None))
            return False
        head = await self._store.read(seals.audit_head(run.scope.workspace_id))
        now = self._clock.now()
        seal = Seal(
            run_id=run.run_id,
            seal=number,
            previous=before.hash() if before else None,
            events=chained.last_seq,
            event_head=None if chained.head is None else chained.head.hex(),
            ledger_rows=ledger.root.leaves,
            ledger_root=ledger.root.root().hex(),
            open_rows=ledger.open_rows,
            receipts=receipts.root.leaves,
            receipts_root=receipts.root.root().hex(),
            reported=reported,
            audit_entries=head.seq if head else 0,
            audit_head=head.hash.hex() if head and head.hash else None,
            sealed_at=rfc3339(now),
        )
        signed, next_look = self._signed(seal, salt), self._next_look(run)
        is_put = await self._store.write(
            seals.put(run, seal, signed, next_look, erased, self._ids, now)
        )
        return is_put or await self._seal(run)

    async def _read(
        self, run: EndedRun, salt: bytes, number: int, ledger: SealedTree, receipts: SealedTree
    ) -> None:
        after, page = LedgerPosition(), 0
        while True:
            began = self._clock.monotonic()
            rows = await self._store.read(
                sealed_rows.page(run.run_id, run.scope.workspace_id, salt, after, SEAL_PAGE_ROWS)
            )
            await self._put(run.run_id, page, number, ledger, rows.ledger)
            await self._put(run.run_id, page, number, receipts, rows.receipts)
            if len(rows.ledger) < SEAL_PAGE_ROWS:
                return
            after, page = rows.last, page + 1
            await self._clock.sleep((self._clock.monotonic() - began) * SEAL_REST_SHARE)

    async def _put(
        self, run_id: RunId, page: int, number: int, tree: SealedTree, rows: Sequence[SealedRow]
    ) -> None:
        leaves = [SealedLeaf(row.id, row.is_open, leaf_hash(row.content)) for row in rows]
        for leaf in leaves:
            tree.root.add(leaf.hash)
            tree.open_rows += leaf.is_open
        sealed = await self._store.read(seals.sealed_page(run_id, tree.kind, page, number - 1))
        tree.compared.step(unpacked(sealed or b""), leaves)
        if (content := packed(leaves)) != sealed:
            await self._store.write(seals.put_page(run_id, tree.kind, page, number, content))

    def _signed(self, seal: Seal, salt: bytes) -> StoredSeal:
        text = seal.text()
        signature = self._signer.sign(text.encode())
        signer = self._signer
        return StoredSeal(seal.seal, text, signer.key_id, signature, salt, signer.public_key)

    def _next_look(self, run: EndedRun) -> datetime | None:
        now = self._clock.now()
        age = (now - run.finished_at).total_seconds()
        if age >= RESEAL_UNTIL_SECONDS:
            return None
        return now + timedelta(seconds=max(age, RESEAL_FIRST_SECONDS))


def _is_tampered(run_id: RunId, ledger: SealedTree, receipts: SealedTree) -> bool:
    inserted = ledger.compared.end()
    receipts.compared.end()
    changed = [*inserted, *(id_ for id_, _ in ledger.compared.changed + receipts.compared.changed)]
    if changed:
        log.error("sealed_rows_changed", run_id=run_id, rows=len(changed), first=changed[0])
    return bool(changed)

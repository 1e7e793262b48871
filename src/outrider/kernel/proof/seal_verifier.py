"""The seal verifier: whether a run still has the rows that were sealed, and names the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.domain.chain_walk import Tampering
from outrider.domain.ids import RunId
from outrider.domain.merkle import MerkleRoot, leaf_hash
from outrider.domain.seals import Seal, SealComparison, SealedLeaf, unpacked
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import chains, sealed_rows, seals
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.sealed_rows import SealedRow
from outrider.kernel.transactions.seals import StoredSeal, Tree
from outrider.limits.proof import SEAL_PAGE_ROWS
from outrider.ports.signing import SignatureCheck, Signer


@dataclass(slots=True)
class SealFindings:
    """What is wrong with a run's seals, and with the rows under the last one."""

    seals: list[tuple[int, Tampering]] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    """Events whose hash is not the one that was sealed: the chain was rewritten up to there."""
    rows: list[tuple[Tree, str, Tampering]] = field(default_factory=list)
    checked: int = 0
    erased: int = 0
    """Rows whose person was erased: they are what was sealed, but for what identified somebody."""
    receipts_since: int = 0
    other_keys: set[str] = field(default_factory=set)
    """Keys that signed and are not this installation's own."""
    hashes: dict[int, str] = field(default_factory=dict)
    is_sealed: bool = False


class SealVerifier:
    def __init__(self, foundation: Foundation, signer: Signer, is_signed: SignatureCheck) -> None:
        self._store = foundation.store
        self._signer = signer
        self._is_signed = is_signed

    async def verify_signatures(self, run_id: RunId) -> SealFindings:
        """Of a retired run, which has nothing else left."""
        found = SealFindings()
        previous: Seal | None = None
        for number, each in enumerate(await self._store.read(seals.of_run(run_id)), start=1):
            previous = self._read(run_id, number, each, previous, found)
            if previous is None:
                return found
        found.is_sealed = previous is not None
        return found

    async def verify(self, run_id: RunId, moved_at: int) -> SealFindings:
        """`moved_at` is the run's last event that can change a ledger row."""
        found = SealFindings()
        stored = await self._store.read(seals.of_run(run_id))
        previous: Seal | None = None
        for number, each in enumerate(stored, start=1):
            seal = self._read(run_id, number, each, previous, found)
            if seal is None:
                return found
            await self._verify_head(run_id, seal, found)
            previous = seal
        if previous is None:
            return found
        found.is_sealed = True
        if moved_at <= previous.events:
            await self._verify_rows(run_id, previous, stored[-1].salt, found)
        return found

    def _read(
        self, run_id: RunId, number: int, stored: StoredSeal, previous: Seal | None,
        found: SealFindings,
    ) -> Seal | None:  # fmt: skip
        """The seal, if it is what was signed and follows the one before."""
        if stored.seal != number:
            found.seals.append((number, Tampering.REMOVED))
            return None
        key = stored.public_key
        if stored.key_id == self._signer.key_id:
            key = self._signer.public_key
        else:
            found.other_keys.add(stored.key_id)
        is_signed = key is not None and self._is_signed(
            bytes(key), stored.document.encode(), bytes(stored.signature)
        )
        seal = stored.parsed() if is_signed else None
        before = previous.hash() if previous else None
        if seal is None or (seal.run_id, seal.seal, seal.previous) != (run_id, number, before):
            found.seals.append((number, Tampering.EDITED))
            return None
        found.hashes[number] = seal.hash()
        return seal

    async def _verify_head(self, run_id: RunId, seal: Seal, found: SealFindings) -> None:
        events = await self._store.read(
            chains.events_after(run_id, seal.events - 1, seal.events, 1)
        )
        stored = events[0].hash if events else None
        if (None if stored is None else bytes(stored).hex()) != seal.event_head:
            found.events.append(seal.events)

    async def _verify_rows(
        self, run_id: RunId, seal: Seal, salt: bytes, found: SealFindings
    ) -> None:
        workspace_id = await self._store.read(seals.workspace_of(run_id))
        compared = {tree: SealComparison() for tree in Tree}
        roots = {tree: MerkleRoot() for tree in Tree}
        after, page, is_more = LedgerPosition(), 0, True
        while is_more:
            rows = await self._store.read(
                sealed_rows.page(run_id, workspace_id, bytes(salt), after, SEAL_PAGE_ROWS)
            )
            is_more = bool(rows.ledger)
            for tree, now in ((Tree.LEDGER, rows.ledger), (Tree.RECEIPTS, rows.receipts)):
                content = await self._store.read(seals.sealed_page(run_id, tree, page, seal.seal))
                sealed = list(unpacked(content or b""))
                for leaf in sealed:
                    roots[tree].add(leaf.hash)
                is_more |= bool(sealed)
                compared[tree].step(sealed, _leaves(now))
                found.erased += sum(row.is_erased for row in now)
            found.checked += len(rows.ledger) + len(rows.receipts)
            after, page = rows.last, page + 1
        if [roots[tree].root().hex() for tree in Tree] != [seal.ledger_root, seal.receipts_root]:
            # The leaves themselves were changed: they name nothing any more.
            found.seals.append((seal.seal, Tampering.EDITED))
            return
        inserted = compared[Tree.LEDGER].end()
        found.receipts_since = len(compared[Tree.RECEIPTS].end())
        found.rows += [(tree, *each) for tree in Tree for each in compared[tree].changed]
        found.rows += [(Tree.LEDGER, id_, Tampering.INSERTED) for id_ in inserted]


def _leaves(rows: Sequence[SealedRow]) -> list[SealedLeaf]:
    return [SealedLeaf(row.id, row.is_open, leaf_hash(row.content)) for row in rows]

"""The evidence writer: a run that has ended as a signed bundle, or one recipient's part of it.

Bodies and addresses stay in the house: rows are written as they were sealed, with salted hashes in
their place. The salt of a recipient's rows goes only into that recipient's own proof.
"""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from outrider.domain.bundles import (
    BUNDLE_FORMAT,
    EVENT_FIELDS,
    INCLUSION_FORMAT,
    LineKind,
)
from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import RunId, Scope
from outrider.domain.merkle import InclusionPaths, MerkleRoot, leaf_hash
from outrider.domain.seals import unpacked
from outrider.kernel.foundation import Foundation
from outrider.kernel.proof.run_sealer import RunSealer
from outrider.kernel.reports.certifier import Certifier
from outrider.kernel.transactions import (
    chains,
    evidence,
    ledger_items,
    policy_holds,
    retirement,
    run_records,
    sealed_rows,
    seals,
)
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.sealed_rows import (
    LEDGER_FIELDS,
    RECEIPT_FIELDS,
    SealedRow,
    row_salt,
)
from outrider.kernel.transactions.seals import StoredSeal, Tree
from outrider.limits.campaigns import MESSAGES_MAX
from outrider.limits.proof import SEAL_PAGE_ROWS, VERIFY_PAGE_ROWS
from outrider.ports.artifacts import ArtifactStore
from outrider.ports.signing import Signer


@dataclass(slots=True)
class SignedLines:
    """Lines as they are written, and what the last one says of them."""

    signer: Signer
    lines: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def line(self, kind: LineKind, *cells: object) -> bytes:
        written = msgspec.json.encode([kind, *cells]) + b"\n"
        self.lines += 1
        self.digest.update(written)
        return written

    def end(self) -> bytes:
        digest = self.digest.digest()
        return end_line(
            digest, self.lines, self.signer.key_id, self.signer.public_key,
            self.signer.sign(digest),
        )  # fmt: skip


def end_line(digest: bytes, lines: int, key_id: str, public_key: bytes, signature: bytes) -> bytes:
    """The only spelling of these values."""
    cells = [LineKind.END, digest.hex(), lines, key_id, public_key.hex(), signature.hex()]
    return msgspec.json.encode(cells) + b"\n"


class EvidenceWriter:
    def __init__(
        self, foundation: Foundation, certifier: Certifier, sealer: RunSealer, signer: Signer,
        artifacts: ArtifactStore,
    ) -> None:  # fmt: skip
        self._store = foundation.store
        self._certifier = certifier
        self._sealer = sealer
        self._signer = signer
        self._artifacts = artifacts

    async def bundle(self, scope: Scope, run_id: RunId) -> AsyncIterator[bytes]:
        """The bundle, line by line; of a retired run, the one that was kept, in pieces."""
        if (reference := await self._kept(scope, run_id)) is not None:
            async for piece in self._artifacts.read(reference):
                yield piece
            return
        seal = await self._sealed(scope, run_id)
        certificate = await self._certifier.certify(scope, run_id)
        signed = SignedLines(self._signer)
        yield signed.line(
            LineKind.BUNDLE,
            {
                "format": BUNDLE_FORMAT,
                "certificate": certificate.as_document(),
                "eventFields": EVENT_FIELDS,
                "ledgerFields": LEDGER_FIELDS,
                "receiptFields": RECEIPT_FIELDS,
            },
        )
        yield signed.line(LineKind.SEAL, *_seal_cells(seal))
        for contract in await self._store.read(evidence.contracts_of(run_id)):
            yield signed.line(
                LineKind.CONTRACT, contract.id, contract.sha256, contract.submission_target,
                msgspec.Raw(contract.document.encode()),
            )  # fmt: skip
        for template in await self._store.read(evidence.templates_of(run_id)):
            yield signed.line(
                LineKind.TEMPLATE, template.id, template.version, template.message_id,
                template.channel, template.sha256(),
            )  # fmt: skip
        holds = (await self._store.read(policy_holds.of_runs([run_id]))).get(run_id, [])
        for hold in holds:
            yield signed.line(LineKind.HOLD, hold.waits_for, hold.items)
        async for line in self._verdicts(run_id, signed):
            yield line
        async for line in self._events(run_id, signed):
            yield line
        async for line in self._rows(scope, run_id, seal, signed):
            yield line
        yield signed.end()

    async def inclusion(self, scope: Scope, run_id: RunId, recipient_id: str) -> bytes:
        """One recipient's rows with the paths from them to the root; and their salts."""
        if await self._kept(scope, run_id) is not None:
            raise Conflict(
                f"run {run_id} is retired: who its rows were for is not known any more",
                hint="its whole bundle is still there",
            )
        seal = await self._sealed(scope, run_id)
        found = await self._store.read(
            ledger_items.whole_of_recipient(scope, run_id, recipient_id, MESSAGES_MAX)
        )
        ids = [each.item.id for each in found]
        opened = await self._store.read(sealed_rows.opened(ids, bytes(seal.salt)))
        if not opened:
            raise NotFound(f"run {run_id} has no row for recipient {recipient_id}")
        tree = await self._tree(run_id, seal, [each.row.id for each in opened])
        paths = tree.paths()
        items = [
            {
                "row": msgspec.Raw(each.row.content),
                "place": tree.places[each.row.id],
                "path": [one.hex() for one in paths[each.row.id]],
                "salt": row_salt(bytes(seal.salt), each.row.id).hex(),
                "recipient": each.recipient,
                "detail": each.detail,
            }
            for each in opened
            if each.row.id in paths
        ]
        return msgspec.json.encode(
            {
                "format": INCLUSION_FORMAT,
                "ledgerFields": LEDGER_FIELDS,
                "seal": _seal_cells(seal),
                "items": items,
            }
        )

    async def _kept(self, scope: Scope, run_id: RunId) -> str | None:
        """Where the bundle of a retired run is."""
        await self._store.read(run_records.run(scope, run_id))
        found = await self._store.read(retirement.of_run(run_id))
        if found is None:
            return None
        if found.reference is None:
            raise NotFound(f"the bundle of run {run_id} is gone")
        return found.reference

    async def _sealed(self, scope: Scope, run_id: RunId) -> StoredSeal:
        """The run's last seal, with all receipts that are there by now."""
        await self._store.read(run_records.run(scope, run_id))
        run = await self._store.read(evidence.ended_run(run_id))
        if run is None:
            raise Conflict(
                f"run {run_id} has not ended", hint="evidence is of a run that has ended"
            )
        await self._sealer.seal_now(run)
        found = await self._store.read(seals.of_run(run_id))
        if not found:
            raise Conflict(f"run {run_id} cannot be sealed: its rows were changed")
        return found[-1]

    async def _verdicts(self, run_id: RunId, signed: SignedLines) -> AsyncIterator[bytes]:
        after = FIRST
        while True:
            page = await self._store.read(evidence.verdicts_after(run_id, after, VERIFY_PAGE_ROWS))
            for verdict in page:
                yield signed.line(LineKind.VERDICT, *verdict)
            if len(page) < VERIFY_PAGE_ROWS:
                return
            after = page[-1].id

    async def _events(self, run_id: RunId, signed: SignedLines) -> AsyncIterator[bytes]:
        run = await self._store.read(chains.run(run_id))
        assert run is not None
        after = 0
        while True:
            page = await self._store.read(
                chains.events_after(run_id, after, run.last_seq, VERIFY_PAGE_ROWS)
            )
            for each in page:
                hash_ = None if each.hash is None else bytes(each.hash).hex()
                content = msgspec.Raw(each.event.canonical().encode())
                yield signed.line(LineKind.EVENT, each.run_seq, hash_, content)
            if len(page) < VERIFY_PAGE_ROWS:
                return
            after = page[-1].run_seq

    async def _rows(
        self, scope: Scope, run_id: RunId, seal: StoredSeal, signed: SignedLines
    ) -> AsyncIterator[bytes]:
        """What is written has to be what was sealed."""
        after = LedgerPosition()
        roots = {LineKind.LEDGER: MerkleRoot(), LineKind.RECEIPT: MerkleRoot()}
        while True:
            page = await self._store.read(
                sealed_rows.page(
                    run_id, scope.workspace_id, bytes(seal.salt), after, SEAL_PAGE_ROWS
                )
            )
            for kind, rows in ((LineKind.LEDGER, page.ledger), (LineKind.RECEIPT, page.receipts)):
                for row in rows:
                    yield _row_line(kind, row, roots[kind], signed)
            if len(page.ledger) < SEAL_PAGE_ROWS:
                break
            after = page.last
        sealed = seal.parsed()
        written = [root.root().hex() for root in roots.values()]
        if written != [sealed.ledger_root, sealed.receipts_root]:
            raise Conflict(
                f"run {run_id} has other rows than those that were sealed",
                hint="try again if receipts are coming in; else run `outrider verify --database`",
            )

    async def _tree(self, run_id: RunId, seal: StoredSeal, ids: list[str]) -> InclusionPaths:
        tree = InclusionPaths(ids)
        page = 0
        while content := await self._store.read(
            seals.sealed_page(run_id, Tree.LEDGER, page, seal.seal)
        ):
            for leaf in unpacked(content):
                tree.add(leaf.id, leaf.hash)
            page += 1
        return tree


def _row_line(kind: LineKind, row: SealedRow, root: MerkleRoot, signed: SignedLines) -> bytes:
    leaf = leaf_hash(row.content)
    root.add(leaf)
    return signed.line(kind, leaf.hex(), msgspec.Raw(row.content))


def _seal_cells(seal: StoredSeal) -> list[object]:
    assert seal.public_key is not None
    return [
        seal.document,
        seal.key_id,
        bytes(seal.public_key).hex(),
        bytes(seal.signature).hex(),
    ]

"""Seals: what a run's ledger and receipts were at its end, as two Merkle roots in one document.

The leaves are kept beside it, so that a row that was changed since can be named and not only its
run. A later seal names the one before it by its hash.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from outrider.domain.chain_walk import Tampering

FORMAT = "outrider-seal/1"
_LEAF_BYTES = 16 + 1 + 32


class SealedLeaf(NamedTuple):
    id: str
    is_open: bool
    """Its row had not ended when it was sealed: it may change until the next seal."""
    hash: bytes


def packed(leaves: Iterable[SealedLeaf]) -> bytes:
    return b"".join(
        uuid.UUID(id_).bytes + bytes([is_open]) + hash_ for id_, is_open, hash_ in leaves
    )


def unpacked(content: bytes) -> Iterator[SealedLeaf]:
    for begin in range(0, len(content), _LEAF_BYTES):
        leaf = content[begin : begin + _LEAF_BYTES]
        yield SealedLeaf(str(uuid.UUID(bytes=leaf[:16])), bool(leaf[16]), leaf[17:])


@dataclass(frozen=True, slots=True)
class Seal:
    run_id: str
    seal: int
    previous: str | None
    events: int
    event_head: str | None
    ledger_rows: int
    ledger_root: str
    open_rows: int
    receipts: int
    receipts_root: str
    reported: int
    """How many items had a reported delivery: if that grows, there are more receipts to seal."""
    audit_entries: int
    audit_head: str | None
    sealed_at: str
    format: str = FORMAT

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    def hash(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()

    @staticmethod
    def parse(text: str) -> "Seal":
        return Seal(**json.loads(text))


@dataclass(slots=True)
class SealComparison:
    """Rows as they were sealed against rows as they are; both come in pages, and a row may be on
    another page than before."""

    changed: list[tuple[str, Tampering]] = field(default_factory=list)
    settled: int = 0
    """Rows that were open when sealed, and are different now."""
    _sealed: dict[str, SealedLeaf] = field(default_factory=dict)
    _found: dict[str, SealedLeaf] = field(default_factory=dict)

    def step(self, sealed: Iterable[SealedLeaf], found: Iterable[SealedLeaf]) -> None:
        self._sealed |= {leaf.id: leaf for leaf in sealed}
        self._found |= {leaf.id: leaf for leaf in found}
        for id_ in self._sealed.keys() & self._found.keys():
            before, now = self._sealed.pop(id_), self._found.pop(id_)
            if before.hash != now.hash and before.is_open:
                self.settled += 1
            elif before.hash != now.hash:
                self.changed.append((id_, Tampering.EDITED))

    def end(self) -> list[str]:
        """Returns those that were not sealed: inserted, or not there yet."""
        self.changed += [(id_, Tampering.REMOVED) for id_ in self._sealed]
        self.changed.sort()
        return sorted(self._found)

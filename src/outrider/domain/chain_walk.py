"""Walking a hash chain: which entries were edited, removed or inserted since they were chained.

The walk follows the hashes that are stored, so that one changed entry is named and not all that
come after it.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from outrider.domain.event_chain import NO_HASH, next_hash


class Tampering(StrEnum):
    """`head`: the entries agree, but not with the head that was noted beside them. `unchained`:
    there are no hashes, although what is older has them."""

    EDITED = "edited"
    REMOVED = "removed"
    INSERTED = "inserted"
    HEAD = "head"
    UNCHAINED = "unchained"


@dataclass(frozen=True, slots=True)
class TamperedEntry:
    """One, or all from the first to the last of them."""

    first: int
    last: int
    how: Tampering


@dataclass(slots=True)
class ChainWalk:
    before_chain: int = 0
    """Entries from before there were hashes."""
    found: list[TamperedEntry] = field(default_factory=list)
    _hash: bytes | None = None
    _last: int = 0

    @classmethod
    def behind(cls, last: int, head: bytes | None) -> "ChainWalk":
        """A walk that begins behind entries that were retired."""
        return cls(_hash=head, _last=last)

    def step(self, sequence: int, stored: bytes | None, content: bytes | None) -> None:
        """The next entry by sequence: its hash as stored, and that of its content, None where the
        content is gone."""
        is_next = self._passed(sequence, is_chained=stored is not None)
        if stored is None and self._hash is None:
            self.before_chain += 1
        elif stored is None:
            self._note(sequence, Tampering.INSERTED)
        elif content is None:
            self._note(sequence, Tampering.REMOVED)
        elif is_next and stored != next_hash(self._hash or NO_HASH, sequence, content):
            self._note(sequence, Tampering.EDITED)
        self._hash = stored or self._hash

    def end(self, last: int, head: bytes | None) -> None:
        """Compare with the last sequence and the head that were noted beside the entries."""
        known = len(self.found)
        if self._hash is not None or head is not None:
            self._missing(self._last + 1, last)
        if self._last > last:
            self._note(self._last, Tampering.INSERTED)
        if len(self.found) == known and self._hash != head:
            self._note(last, Tampering.HEAD)

    @property
    def head(self) -> bytes | None:
        return self._hash

    def _passed(self, sequence: int, *, is_chained: bool) -> bool:
        """Whether nothing is missing before this entry. If something is, whether this one was
        edited cannot be said: its hash covers what is gone."""
        is_next = sequence == self._last + 1
        if not is_next and (is_chained or self._hash is not None):
            self._missing(self._last + 1, sequence - 1)
        self._last = sequence
        return is_next

    def _missing(self, first: int, last: int) -> None:
        if first <= last:
            self.found.append(TamperedEntry(first, last, Tampering.REMOVED))

    def _note(self, sequence: int, how: Tampering) -> None:
        self.found.append(TamperedEntry(sequence, sequence, how))

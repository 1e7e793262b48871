"""A client's view of a run, by contract 002's rule for gaps in fetched events.

Pages of events go in. A gap is lag, not loss: the view says that it is stale, takes a snapshot, and
is current again once that is past the gap. It does no networking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.domain.projection import detect_non_contiguous


@dataclass
class RunView:
    status: str = "PENDING"
    last_event_seq: int = 0
    stale: bool = False
    seen: list[int] = field(default_factory=list)
    _hole_ends_at: int = 0

    def apply_events(self, page: Sequence[Mapping[str, Any]]) -> bool:
        """False: the view is now stale, and needs a snapshot before it takes another event."""
        for event in page:
            sequence = event["runSeq"]
            if sequence <= self.last_event_seq:
                continue
            if self.stale or detect_non_contiguous(self.last_event_seq, sequence):
                self.stale = True
                self._hole_ends_at = max(self._hole_ends_at, sequence)
                return False
            self.last_event_seq = sequence
            self.seen.append(sequence)
        return True

    def apply_snapshot(self, snapshot: Mapping[str, Any]) -> bool:
        """True if the watermark is past the gap: the view can continue."""
        if snapshot["lastEventSeq"] < self.last_event_seq:
            return not self.stale
        self.status = snapshot["status"]
        self.last_event_seq = snapshot["lastEventSeq"]
        self.stale = self.last_event_seq < self._hole_ends_at
        return not self.stale

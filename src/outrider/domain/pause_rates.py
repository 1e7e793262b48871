"""The rates of a run: how much of it failed, bounced, was complained of, or is not heard of."""

from dataclasses import dataclass
from typing import NamedTuple

from outrider.domain.campaigns import PauseOn


class ExceededRate(NamedTuple):
    """`limit` is the name of the limit in a campaign's `pauseOn`."""

    limit: str
    items: int
    of: int
    most: float
    what: str

    @property
    def description(self) -> str:
        return (
            f"{self.items:,} of {self.of:,} {self.what} ({self.items / self.of:.2%}), and"
            f" pauseOn.{self.limit} is {self.most:.2%}"
        )

    def as_document(self) -> dict[str, object]:
        return {"rate": self.limit, "items": self.items, "of": self.of, "limit": self.most}


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What became of a run's messages so far."""

    sent: int
    bounced: int = 0
    complained: int = 0
    failed: int = 0
    in_doubt: int = 0
    silent: int = 0
    """Sent, and no receipt speaks of them."""
    intended: int = 0
    """All of the run's messages, of which some may still be open."""

    def exceeded(self, limits: PauseOn, *, at_hold_end: bool = False) -> list[ExceededRate]:
        """The rates above their limits. Rates of few messages are not judged before the end of a
        step's hold, unless the rest of the run cannot lower them enough; silence only then,
        because receipts have had their time."""
        tried = self.sent + self.failed + self.in_doubt
        silent = limits.silence_rate if at_hold_end else None
        minimum = 1 if at_hold_end else limits.minimum_messages
        judged = (
            ("failureRate", self.failed + self.in_doubt, tried, limits.failure_rate,
             "messages failed or are in doubt"),
            ("bounceRate", self.bounced, self.sent, limits.bounce_rate, "sent messages bounced"),
            ("complaintRate", self.complained, self.sent, limits.complaint_rate,
             "sent messages were complained of"),
            ("silenceRate", self.silent, self.sent, silent, "sent messages have no receipt"),
        )  # fmt: skip
        return [
            ExceededRate(limit, items, of, most, what)
            for limit, items, of, most, what in judged
            if most is not None
            and items > most * (of if of >= minimum else max(of, self.intended, 1))
        ]

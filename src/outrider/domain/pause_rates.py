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

    def exceeded(
        self, limits: PauseOn, sample_messages: int = 1, *, silence: bool = False
    ) -> list[ExceededRate]:
        """The rates above their limits. Rates of fewer messages than a sample are not judged;
        silence only once receipts have had their time."""
        tried = self.sent + self.failed + self.in_doubt
        silent = limits.silence_rate if silence else None
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
            if most is not None and of >= sample_messages and items > most * of
        ]

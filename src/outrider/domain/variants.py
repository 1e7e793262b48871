"""A/B variants: several texts of one message, each for its share of the recipients, and the winner.

Who gets which depends on the run, the message and the recipient alone. Its draw is not that of a
rollout: otherwise the first step would be the first variant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from outrider.domain.receipts import DeliveryState
from outrider.domain.rollouts import LAST_DRAW, DrawnShare, draw

WHOLE_AUDIENCE = DrawnShare(0, 0, LAST_DRAW)
"""Of a launch without a rollout."""
BY_RECEIPTS = "receipts"
"""Who chose a winner that receipts decided."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A text of a message, in place of its own."""

    id: str
    body: str
    subject: str | None = None
    script_version: str | None = None
    weight: int = 1

    def as_document(self) -> dict[str, object]:
        return {
            "id": self.id,
            "subject": self.subject,
            "body": self.body,
            "scriptVersion": self.script_version,
            "weight": self.weight,
        }


class WinnerBy(StrEnum):
    PERSON = "person"
    RECEIPTS = "receipts"


class WinnerRate(StrEnum):
    """The share of what was sent that was delivered (read and answered ones included), and so
    on."""

    DELIVERED = "delivered"
    READ = "read"
    REPLIED = "replied"


COUNTED = {
    WinnerRate.DELIVERED: (DeliveryState.DELIVERED, DeliveryState.READ, DeliveryState.REPLIED),
    WinnerRate.READ: (DeliveryState.READ, DeliveryState.REPLIED),
    WinnerRate.REPLIED: (DeliveryState.REPLIED,),
}
"""A message that was complained of, or answered with STOP, speaks for no variant."""


@dataclass(frozen=True, slots=True)
class WinnerRule:
    """Who chooses the variant for the last step of a rollout; `minimum_sent` of each variant, or a
    person does."""

    by: WinnerBy
    rate: WinnerRate = WinnerRate.DELIVERED
    minimum_sent: int = 0

    def as_document(self) -> dict[str, object]:
        if self.by is WinnerBy.PERSON:
            return {"by": self.by.value}
        return {"by": self.by.value, "rate": self.rate.value, "minimum": self.minimum_sent}


class Choice(NamedTuple):
    """A variant's range of draws."""

    first_choice: int
    last_choice: int


class AudiencePart(NamedTuple):
    """Whom some jobs of a message with variants are for. Without a choice: everybody in the share,
    with the variant that wins."""

    share: DrawnShare
    variant: str
    choice: Choice | None


class ChosenWinner(NamedTuple):
    message_id: str
    variant: str
    decided_by: str
    decided_at: datetime


class VariantFigures(NamedTuple):
    """What became of a variant in the test: its messages that were assigned by draw."""

    message_id: str
    variant: str
    asset_id: str
    items: int = 0
    sent: int = 0
    failed: int = 0
    skipped: int = 0
    deliveries: Mapping[str, int] = {}

    def share_of(self, rate: WinnerRate) -> Fraction:
        counted = sum(self.deliveries.get(state, 0) for state in COUNTED[rate])
        return Fraction(counted, self.sent) if self.sent else Fraction(0)

    def as_document(self) -> dict[str, object]:
        return {
            "variant": self.variant,
            "items": self.items,
            "sent": self.sent,
            "failed": self.failed,
            "skipped": self.skipped,
            "deliveries": dict(self.deliveries),
        }


def choice_salt(run_id: str, message_id: str) -> str:
    return f"{run_id}|variant|{message_id}"


def choices(variants: Sequence[Variant]) -> dict[str, Choice]:
    """The ranges that share all draws by weight."""
    whole, total = LAST_DRAW + 1, sum(variant.weight for variant in variants)
    found, reached = {}, 0
    for variant in variants:
        last = whole * (reached + variant.weight) // total
        found[variant.id] = Choice(whole * reached // total, last - 1)
        reached += variant.weight
    return found


def assigned(
    run_id: str, message_id: str, variants: Sequence[Variant], recipient_id: str
) -> str | None:
    """The variant that a recipient gets, unless it is that of the winner."""
    at = draw(choice_salt(run_id, message_id), recipient_id)
    for variant, (first, last) in choices(variants).items():
        if first <= at <= last:
            return variant
    return None


def parts(
    variants: Sequence[Variant], shares: Sequence[DrawnShare], last_step: int | None
) -> list[AudiencePart]:
    """`last_step`: the step of the rollout that waits for a winner."""
    found: list[AudiencePart] = []
    for share in shares or [WHOLE_AUDIENCE]:
        if share.step == last_step:
            found.append(AudiencePart(share, variants[0].id, None))
        else:
            found += [
                AudiencePart(share, name, choice) for name, choice in choices(variants).items()
            ]
    return found


def leader(figures: Iterable[VariantFigures], rule: WinnerRule) -> VariantFigures | None:
    """The variant with the highest rate. None: two share it, nothing counts for any of them, or
    one was sent to too few to say."""
    ranked = sorted(figures, key=lambda each: each.share_of(rule.rate), reverse=True)
    if any(each.sent < max(1, rule.minimum_sent) for each in ranked):
        return None
    best, second = (each.share_of(rule.rate) for each in ranked[:2])
    return ranked[0] if best > second else None

"""The `variants` of a message, and the `winner` of a campaign document."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from outrider.documents import Document, key_field, twice
from outrider.documents.rollout import RolloutStepDocument
from outrider.documents.templates import Body, Subject
from outrider.domain.states import Channel
from outrider.domain.variants import Variant, WinnerBy, WinnerRate, WinnerRule
from outrider.limits.campaigns import (
    NAME_MAX_CHARACTERS,
    RECIPIENTS_MAX,
    VARIANT_WEIGHT_MAX,
    VARIANTS_MAX,
    WINNER_MINIMUM_DEFAULT,
)

VARIANTS_MIN = 2

Identifier = Annotated[
    str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(key_field)
]


class VariantDocument(Document):
    id: Identifier
    subject: Subject | None = None
    body: Body | None = None
    script_version: Identifier | None = None
    weight: Annotated[int, Field(ge=1, le=VARIANT_WEIGHT_MAX)] = 1

    def variant(self, subject: str | None, body: str) -> Variant:
        """What it leaves out is its message's own."""
        return Variant(
            self.id, self.body or body, self.subject or subject, self.script_version, self.weight
        )


Variants = Annotated[list[VariantDocument], Field(max_length=VARIANTS_MAX)]


class WinnerDocument(Document):
    by: Annotated[WinnerBy, Field(strict=False)]
    rate: Annotated[WinnerRate | None, Field(strict=False)] = None
    minimum: Annotated[int | None, Field(ge=1, le=RECIPIENTS_MAX)] = None

    @field_validator("rate", "minimum")
    @classmethod
    def _of_receipts(cls, given: Any, info: ValidationInfo) -> Any:
        if given is not None and info.data.get("by") is WinnerBy.PERSON:
            raise ValueError('is only for {"by": "receipts"}; leave it out')
        return given

    def rule(self) -> WinnerRule:
        if self.by is WinnerBy.PERSON:
            return WinnerRule(self.by)
        minimum = WINNER_MINIMUM_DEFAULT if self.minimum is None else self.minimum
        return WinnerRule(self.by, self.rate or WinnerRate.DELIVERED, minimum)


def check_variants(
    variants: Sequence[VariantDocument],
    channel: Channel | None,
    subject: str | None,
    body: str | None,
    script_version: str | None,
) -> None:
    if len(variants) < VARIANTS_MIN:
        raise ValueError(f"should have at least {VARIANTS_MIN} variants, or none")
    if channel is Channel.SOCIAL:
        raise ValueError("cannot be used for a social post, which everybody sees at once")
    if repeated := twice([variant.id for variant in variants]):
        raise ValueError(f"names {', '.join(repeated)} more than once")
    scripts = [variant.script_version for variant in variants]
    if channel is not Channel.VOICE and any(scripts):
        raise ValueError("have a scriptVersion, which is only allowed for the channel voice")
    if script_version is not None and not all(scripts):
        raise ValueError("should each have a scriptVersion, as their message has one")
    if repeated := twice([script for script in scripts if script is not None]):
        raise ValueError(f"use the scriptVersion {', '.join(repeated)} more than once")
    for one, other in combinations(variants, 2):
        texts = [(each.subject or subject, each.body or body) for each in (one, other)]
        if texts[0] == texts[1] and one.script_version == other.script_version:
            raise ValueError(f"'{one.id}' and '{other.id}' are the same text; change one of them")


def check_winner(
    winner: WinnerDocument, rollout: Sequence[RolloutStepDocument], varied: Iterable[object]
) -> None:
    if not any(varied):
        raise ValueError("needs a message with variants; add some, or leave it out")
    if len(rollout) < VARIANTS_MIN:
        raise ValueError(
            "needs a rollout of at least two steps: the last one is sent the variant that wins, and"
            ' the steps before it are the test, as in "rollout": [{"percent": 20, "holdMinutes":'
            ' 60}, {"percent": 100}]'
        )
    if winner.by is WinnerBy.RECEIPTS and not rollout[-2].hold_minutes:
        raise ValueError(
            "by receipts needs a holdMinutes in the step before the last, in which they can come"
        )

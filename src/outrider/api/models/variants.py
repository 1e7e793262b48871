"""A/B variants on the wire: what is planned, what became of each, and the winner."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.domain.variants import WinnerBy, WinnerRate, WinnerRule
from outrider.kernel.transactions.variants import VariantsOfRun
from outrider.limits.campaigns import (
    NAME_MAX_CHARACTERS,
    VARIANT_WEIGHT_MAX,
    VARIANTS_MAX,
    WINNER_MINIMUM_DEFAULT,
)


class VariantAnswer(Answer):
    id: str
    subject: str | None
    body: str
    script_version: str | None
    weight: int


class WinnerRuleAnswer(Answer):
    by: WinnerBy
    rate: WinnerRate | None = Field(default=None, description="By receipts: which share counts.")
    minimum: int | None = Field(
        default=None, description="By receipts: how many of each variant must have been sent."
    )

    @classmethod
    def of(cls, rule: WinnerRule) -> "WinnerRuleAnswer":
        return cls.model_validate(rule.as_document())


class VariantFiguresAnswer(Answer):
    variant: str
    weight: int
    items: int = Field(description="How many recipients were assigned to it by draw.")
    sent: int
    failed: int
    skipped: int
    deliveries: dict[str, int] = Field(description="What receipts say of what was sent.")
    rates: dict[WinnerRate, float] = Field(
        description="The shares of what was sent: `delivered` includes read and answered messages."
    )


class ChosenWinnerAnswer(Answer):
    variant: str
    decided_by: str = Field(description="`receipts`, or who chose it.")
    decided_at: datetime


class MessageVariantsAnswer(Answer):
    message_id: str
    awaits_winner: bool = Field(
        description="The last step of the rollout is not sent before one is chosen."
    )
    winner: ChosenWinnerAnswer | None
    variants: list[VariantFiguresAnswer]

    @classmethod
    def of(cls, found: VariantsOfRun) -> "MessageVariantsAnswer":
        winner = found.winner
        return cls(
            message_id=found.message_id,
            awaits_winner=found.awaits_winner,
            winner=None
            if winner is None
            else ChosenWinnerAnswer(
                variant=winner.variant,
                decided_by=winner.decided_by,
                decided_at=winner.decided_at,
            ),
            variants=[
                VariantFiguresAnswer(
                    variant=each.variant,
                    weight=weight,
                    items=each.items,
                    sent=each.sent,
                    failed=each.failed,
                    skipped=each.skipped,
                    deliveries=dict(each.deliveries),
                    rates={rate: float(each.share_of(rate)) for rate in WinnerRate},
                )
                for each, weight in zip(found.figures, found.weights, strict=True)
            ],
        )


class RunVariantsAnswer(Answer):
    run_id: str
    rule: WinnerRuleAnswer | None = Field(
        description="Who chooses the variant of the rollout's last step; null if nobody does."
    )
    messages: list[MessageVariantsAnswer]

    @classmethod
    def of(
        cls, run_id: str, rule: WinnerRule | None, found: Sequence[VariantsOfRun]
    ) -> "RunVariantsAnswer":
        return cls(
            run_id=run_id,
            rule=None if rule is None else WinnerRuleAnswer.of(rule),
            messages=[MessageVariantsAnswer.of(each) for each in found],
        )


def variants_document() -> dict[str, Any]:
    """The format of a message's variants, as part of a campaign's."""
    return {
        "type": "array",
        "description": "Each recipient is sent one of these, drawn by weight.",
        "maxItems": VARIANTS_MAX,
        "items": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string", "minLength": 1, "maxLength": NAME_MAX_CHARACTERS},
                "subject": {"type": ["string", "null"]},
                "body": {"type": ["string", "null"]},
                "scriptVersion": {"type": ["string", "null"]},
                "weight": {
                    "type": "integer", "minimum": 1, "maximum": VARIANT_WEIGHT_MAX, "default": 1,
                },
            },
        },
        "examples": [[{"id": "a"}, {"id": "b", "subject": "Only today"}]],
    }  # fmt: skip


def winner_document() -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "description": "Who chooses the variant that the last step of the rollout is sent.",
        "required": ["by"],
        "additionalProperties": False,
        "properties": {
            "by": {"enum": [each.value for each in WinnerBy]},
            "rate": {"enum": [*(each.value for each in WinnerRate), None]},
            "minimum": {
                "type": ["integer", "null"], "minimum": 1, "default": WINNER_MINIMUM_DEFAULT,
            },
        },
        "examples": [{"by": "receipts", "rate": "read", "minimum": 500}],
    }  # fmt: skip

"""Items in doubt on the wire, and verdicts on them."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer, Success, Text
from outrider.api.models.items import CONTRACT_ATTEMPT, ENGINE_ATTEMPT, ID_CHARACTERS
from outrider.documents import Document
from outrider.domain.call_results import Progress
from outrider.domain.evidence import Settles
from outrider.domain.ids import CampaignId
from outrider.domain.states import Channel
from outrider.kernel.transactions.doubt_lists import DoubtCounts, DoubtFilter, ListedDoubt
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.ledger_items import engine_attempt

EVIDENCE_MAX_CHARACTERS = 4_000
RESOLVED_IDS_MAX = 1_000
GROUPS_SHOWN = 100


class DoubtAnswer(Answer):
    outbox_id: str
    run_id: str | None
    campaign_id: str | None
    recipient_id: str
    address: str | None
    channel: Channel
    provider: str
    submission_target: str = Field(description="Where it was called last.")
    reference: str
    attempts: int
    contract_attempt: int = CONTRACT_ATTEMPT
    engine_attempt: int = ENGINE_ATTEMPT
    progress: Progress | None = Field(
        description="How far the last attempt got, as far as is known."
    )
    reason: str | None
    error: str | None
    opened_at: datetime | None
    doubted_at: datetime
    settles: Settles | None = Field(
        description="The next evidence that can settle it; null until a worker has looked."
    )
    since: datetime = Field(description="Since when it has been waiting for this evidence.")
    next_check_at: datetime | None = Field(
        description="When it is checked next; null if only a person can settle it."
    )
    finding: str | None = Field(description="What the last check found.")
    is_exhausted: bool = Field(
        description="Its contract allows no more attempts, so `resubmit` is refused."
    )

    @classmethod
    def of(cls, doubt: ListedDoubt) -> "DoubtAnswer":
        return cls(
            outbox_id=doubt.id,
            run_id=doubt.run_id,
            campaign_id=doubt.campaign_id,
            recipient_id=doubt.recipient_id,
            address=doubt.address,
            channel=Channel(doubt.channel),
            provider=doubt.provider,
            submission_target=doubt.submission_target,
            reference=doubt.reference,
            attempts=doubt.attempts,
            contract_attempt=doubt.attempts,
            engine_attempt=engine_attempt(doubt.attempts, doubt.repeats),
            progress=Progress(doubt.progress) if doubt.progress else None,
            reason=doubt.reason,
            error=doubt.error,
            opened_at=doubt.opened_at,
            doubted_at=doubt.doubted_at,
            settles=Settles(doubt.settles) if doubt.settles else None,
            since=doubt.since or doubt.doubted_at,
            next_check_at=doubt.next_check_at,
            finding=doubt.finding,
            is_exhausted=bool(doubt.is_exhausted),
        )


class CountedDoubts(Answer):
    name: str
    label: str = Field(description="What it is called: a campaign's name.")
    count: int


class DoubtCountsAnswer(Answer):
    """How many there are; of each list the most frequent come first."""

    total: int
    most: int = Field(description="Counting stops here.")
    settles: dict[str, int] = Field(description="By receipt, key, look_up and person.")
    unchecked: int = Field(description="No worker has looked at them yet.")
    left_to_people: int
    settling_by_themselves: int
    people_since: datetime | None = Field(
        description="Since when the first one has been waiting for a person."
    )
    submission_targets: list[CountedDoubts]
    reasons: list[CountedDoubts]
    campaigns: list[CountedDoubts]

    @classmethod
    def of(
        cls, counts: DoubtCounts, names: Mapping[CampaignId, str], most: int
    ) -> "DoubtCountsAnswer":
        def listed(counted: Counter[Any], labels: Mapping[Any, str]) -> list[CountedDoubts]:
            return [
                CountedDoubts(name=name, label=labels.get(name, name), count=count)
                for name, count in counted.most_common(GROUPS_SHOWN)
            ]

        return cls(
            total=counts.total,
            most=most,
            settles={each.value: counts.settles[each] for each in Settles},
            unchecked=counts.unchecked,
            left_to_people=counts.left_to_people,
            settling_by_themselves=counts.settling_by_themselves,
            people_since=counts.people_since,
            submission_targets=listed(counts.submission_targets, {}),
            reasons=listed(counts.reasons, {}),
            campaigns=listed(counts.campaigns, names),
        )


class VerdictBody(Document):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"verdict": "sent", "evidence": "found in the provider's export"}]
        }
    )

    verdict: Annotated[DoubtVerdict, Field(strict=False)]
    evidence: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=EVIDENCE_MAX_CHARACTERS,
            pattern=r"\S",
            description="How you know. Kept permanently in the audit log.",
        ),
    ]
    force: bool = Field(
        default=False,
        description="Resolve it even if the worker that made the call may still be running.",
    )


class VerdictsBody(VerdictBody):
    """One verdict on many: those named, or all that match, or all of the workspace."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "runId": "019f0000-0000-7000-8000-000000000000",
                    "verdict": "failed",
                    "evidence": "the provider says that nothing arrived",
                    "confirm": True,
                }
            ]
        }
    )

    run_id: str | None = None
    campaign_id: str | None = None
    submission_target: str | None = None
    reason: str | None = None
    settles: Annotated[Settles | None, Field(strict=False)] = None
    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS)]] | None,
        Field(min_length=1, max_length=RESOLVED_IDS_MAX),
    ] = None
    confirm: bool = Field(default=False, description="Without it, matching items are only counted.")

    @property
    def matching(self) -> DoubtFilter:
        return DoubtFilter(
            self.run_id, self.campaign_id, self.submission_target, self.reason, self.settles
        )


class AllResolved(Success):
    matching: int = Field(description="How many items matched before.")
    resolved: int
    left: int = Field(
        description="How many items still match; repeat the request if this is not 0."
    )
    confirmed: bool


class Resolved(Success):
    outbox_id: str
    verdict: DoubtVerdict

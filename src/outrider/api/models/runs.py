"""Runs on the wire: their accounting, jobs, ledger items, and the certificate."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from outrider.api.models.blockers import BlockerAnswer, blocker_answers
from outrider.api.models.common import (
    AccountingAnswer,
    Answer,
    DeliveryCountsAnswer,
    LedgerAccounting,
)
from outrider.api.models.rollouts import RolloutStepAnswer, rollout_answers
from outrider.domain.blocker_facts import Blocker
from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import RunId
from outrider.domain.outbox import Accounting
from outrider.domain.rollouts import StepProgress
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.states import JobOutcome, JobStatus, RunStatus
from outrider.kernel.reports.item_explainer import Explained
from outrider.kernel.transactions.accountings import Settlings
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.policy_holds import PolicyHold
from outrider.kernel.transactions.run_jobs import JobCount, JobLine, ReasonCount
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.run_requests import HeldFor


class RunLine(Answer):
    run_id: str
    campaign_id: str
    phase: str
    channel: str
    status: RunStatus
    retry_of: str | None = Field(
        description="The earlier run whose remaining items this run sends."
    )
    scheduled_for: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stopped_at: datetime | None
    waits_for: HeldFor | None = Field(description="What the run is waiting for before it starts.")
    accounting: AccountingAnswer

    @classmethod
    def of(cls, run: RunRecord, accounting: Accounting) -> "RunLine":
        return cls(**run_fields(run, accounting))


class JobsByStatus(Answer):
    status: JobStatus
    outcome: JobOutcome | None
    jobs: int
    attempts: int = Field(description="Number of lost attempts.")
    last_error: str | None


class ItemsByReason(Answer):
    status: str
    reason: str
    items: int


class HeldAnswer(Answer):
    """Recipients who wait, or waited, for the workspace's policy before anything was sent."""

    waits_for: WaitsFor
    waiting: int = Field(description="How many wait for it now.")
    items: int = Field(description="How many did at most.")
    since: datetime
    until: datetime = Field(description="Until when the first of them waits, or waited.")

    @classmethod
    def of(cls, hold: PolicyHold) -> "HeldAnswer":
        return cls(**hold._asdict() | {"waits_for": WaitsFor(hold.waits_for)})


class RunAnswer(RunLine):
    jobs: list[JobsByStatus]
    reasons: list[ItemsByReason]
    held: list[HeldAnswer]
    rollout: list[RolloutStepAnswer] = Field(
        default=[], description="The steps of a launch that has a rollout."
    )
    blockers: list[BlockerAnswer] = Field(
        description="Why the run is not moving; empty while it moves, and when it has ended."
    )

    @classmethod
    def whole(
        cls,
        run: RunRecord,
        accounting: Accounting,
        jobs: list[JobCount],
        reasons: list[ReasonCount],
        held: list[PolicyHold],
        rollout: list[StepProgress],
        blockers: Sequence[Blocker],
    ) -> "RunAnswer":
        return cls(
            **run_fields(run, accounting),
            jobs=[JobsByStatus(**count._asdict()) for count in jobs],
            reasons=[ItemsByReason(**count._asdict()) for count in reasons],
            held=[HeldAnswer.of(hold) for hold in held],
            rollout=rollout_answers(rollout),
            blockers=blocker_answers(blockers),
        )


class JobAnswer(Answer):
    job_id: str
    job_type: str
    submission_target: str
    status: JobStatus
    outcome: JobOutcome | None
    attempts: int
    items: int
    sent: int
    failed: int
    skipped: int
    paused: bool
    cancelled: bool
    last_error: str | None
    run_at: datetime | None
    result: dict[str, Any] | None = Field(description="Result of the phase's own job.")
    updated_at: datetime

    @classmethod
    def of(cls, line: JobLine, result: dict[str, Any] | None) -> "JobAnswer":
        fields = {**line._asdict(), "result": result}
        return cls(job_id=fields.pop("id"), **fields)


class ThroughputBucket(Answer):
    at: datetime
    sent: int
    failed: int
    skipped: int


class ThroughputAnswer(Answer):
    """When the items of a run ended; a job's are counted together, when it settles."""

    run_id: str
    begin: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    bucket_seconds: float
    buckets: list[ThroughputBucket]
    unsettled_items: int = Field(description="In unfinished jobs, and therefore in no bucket.")

    @classmethod
    def of(
        cls,
        run_id: RunId,
        begin: datetime,
        bucket_seconds: float,
        settlings: Sequence[Settlings],
        unsettled_items: int,
    ) -> "ThroughputAnswer":
        def at(place: int) -> datetime:
            return begin + timedelta(seconds=bucket_seconds * place)

        return cls.model_validate(
            {
                "runId": run_id,
                "from": begin,
                "to": at(len(settlings)),
                "bucketSeconds": bucket_seconds,
                "buckets": [
                    {"at": at(place), **settled._asdict()}
                    for place, settled in enumerate(settlings)
                ],
                "unsettledItems": unsettled_items,
            }
        )


class Criterion(Answer):
    name: str
    holds: bool
    detail: str


class RememberedRepeats(Answer):
    submission_target: str
    remembers_references: str
    items: int


class UndeclaredRepeats(Answer):
    submission_target: str
    items: int


class RepeatsAnswer(Answer):
    """The evidence that nothing was sent twice; if all is empty, it is the ledger alone."""

    remembered: list[RememberedRepeats] = Field(
        description="Unanswered items called again, as their target's declared memory allows."
    )
    undeclared: list[UndeclaredRepeats] = Field(
        description="Items called again without a declared memory: uniqueness is then not proven."
    )
    disproved: int = Field(
        description="Items called again on evidence that the first call never arrived."
    )


class ReportedByReceipts(Answer):
    """What providers report about sent messages; it is never part of `holds`."""

    sent: int
    reported: int = Field(description="How many of them have a receipt.")
    coverage_percentage: float = Field(description="`reported` of `sent`; 0 if none was sent.")
    delivery: DeliveryCountsAnswer


class SettledDoubts(Answer):
    """Items that were in doubt, by what their last verdict relies on."""

    kind: EvidenceKind
    verdict: str = Field(
        description="`sent`, `failed`, `resubmit`, or `ask_again`: the call was repeated."
    )
    source: str = Field(description="The source of the evidence: a submission target, or a person.")
    items: int


class HeldItems(Answer):
    """How many recipients a policy held back for a while, at most at one time."""

    waits_for: WaitsFor
    items: int


class EventChainAnswer(Answer):
    """The run's log as a hash chain."""

    events: int
    head: str = Field(description="The newest hash, which covers every event; in hex.")


class SealAnswer(Answer):
    """The Merkle roots of a run's ledger and receipts, signed."""

    seal: int = Field(description="1 is made at the run's end; later ones have later receipts.")
    ledger_rows: int
    ledger_root: str
    receipts: int
    receipts_root: str
    hash: str = Field(description="SHA-256 of the seal's document, which the signature is for.")
    key_id: str
    signature: str = Field(description="Ed25519, in hex.")
    sealed_at: datetime


class FallbackItems(Answer):
    """How many items of a target its fallback accepted."""

    submission_target: str
    fallback: str
    items: int


class CertificateAnswer(Answer):
    """The launch proof, counted from the ledger's own rows."""

    run_id: str
    campaign_id: str
    status: RunStatus
    holds: bool
    criteria: list[Criterion]
    repeats: RepeatsAnswer
    doubts: list[SettledDoubts]
    held: list[HeldItems]
    fallbacks: list[FallbackItems] = Field(default_factory=list)
    accounting: LedgerAccounting
    receipts: ReportedByReceipts | None = Field(
        description="As reported by receipts; null for other phases than a launch."
    )
    ledger_digest: str
    event_chain: EventChainAnswer | None = Field(
        default=None, description="Null for a run that ended before there were hash chains."
    )
    seal: SealAnswer | None = Field(
        default=None, description="Null until the run is sealed, a moment after its end."
    )
    issued_at: datetime


class Explanation(Answer):
    outbox_id: str
    contract_attempt: int
    engine_attempt: int
    sentences: list[str]
    blockers: list[BlockerAnswer] = Field(
        description="What the item waits for; empty if it has ended, or is under way."
    )

    @classmethod
    def of(cls, item: Item, explained: Explained) -> "Explanation":
        return cls(
            outbox_id=item.id,
            contract_attempt=item.attempts,
            engine_attempt=item.engine_attempt,
            sentences=explained.sentences,
            blockers=blocker_answers(explained.blockers),
        )


class RunExplanation(Answer):
    run_id: str
    sentences: list[str]


def run_fields(run: RunRecord, accounting: Accounting) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "campaign_id": run.campaign_id,
        "phase": run.phase,
        "channel": run.channel,
        "status": RunStatus(run.status),
        "retry_of": run.retry_of,
        "scheduled_for": run.scheduled_for,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "stopped_at": run.stopped_at,
        "waits_for": HeldFor(run.waits_for) if run.waits_for else None,
        "accounting": AccountingAnswer.of(accounting),
    }

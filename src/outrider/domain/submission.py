"""Contracts and how they judge an attempt: the gateway's result plus policy gives a verdict.

A gateway reports a `CallResult`; `judge` turns it into a `Verdict` under the contract the item was
submitted under. Gateway semantics are never reinterpreted here, and silence is never success.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, assert_never

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
    is_unreachable,
)
from outrider.domain.evidence import NO_EVIDENCE, Evidence
from outrider.domain.reference_memory import NEVER, ReferenceMemory
from outrider.domain.states import Channel, IntentStatus, ItemStatus, success_status

REALTIME, BATCH = "realtime", "batch"
"""The modes of a contract: realtime never waits behind batch."""
WORKFLOW_ORIGIN = "workflow"
"""The origin of items that followed from a domain event."""
DEFERRED_MAX_SECONDS = 5 * 86_400.0
"""How long a message is retried with a provider that keeps deferring it alone; as long as mail
servers do (RFC 5321, 4.5.4.1)."""
SAYS_NOTHING_OF_IT = frozenset({"unauthorized"})
"""Rejections of the caller: they do not say whether an earlier call was accepted."""


class ExhaustedReason(StrEnum):
    DEADLINE_EXCEEDED = "deadline_exceeded"
    MAX_ATTEMPTS = "max_attempts"
    ONE_SHOT = "one_shot"


@dataclass(frozen=True, slots=True)
class Deadline:
    """Retries until the acceptance deadline, which is cumulative over all attempts."""

    max_acceptance_seconds: float


@dataclass(frozen=True, slots=True)
class MaxAttempts:
    max_attempts: int


@dataclass(frozen=True, slots=True)
class OneShot:
    pass


Policy = Deadline | MaxAttempts | OneShot


@dataclass(frozen=True, slots=True)
class Contract:
    """The constraints of a submission target, as of the item's submission."""

    submission_target: str
    gateway_type: str
    gateway_url: str
    mode: str
    policy: Policy
    terminal_outcomes: frozenset[str]

    @property
    def acceptance_seconds(self) -> float | None:
        """How long after its submission an item may be accepted; None means no limit."""
        policy = self.policy
        return policy.max_acceptance_seconds if isinstance(policy, Deadline) else None

    def deadline(self, submitted_at: datetime) -> datetime | None:
        seconds = self.acceptance_seconds
        return None if seconds is None else submitted_at + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class GatewayType:
    """What the code knows about a gateway family; declared honestly, because doubt depends on
    it."""

    name: str
    channel: Channel
    rejection_reasons: frozenset[str]
    remembers: ReferenceMemory | None = NEVER
    """How long its provider documents that it recognises a reference; None: each target declares
    it, because any server may speak this protocol."""
    evidence: Evidence = NO_EVIDENCE
    """What else its provider can say about a call that ended in silence."""
    reference_field: str | None = None
    """The field of a forwarded payload that carries our reference; a client's own would hide it."""
    body_field: str = "body"
    """The field of a payload that carries the text."""
    answers_opt_outs: bool = False
    """Its provider answers STOP and HELP itself, unless its customer has turned that off."""
    success_status: ItemStatus = field(init=False, compare=False)
    channel_name: str = field(init=False, compare=False)
    """Both follow from the channel; looked up once, because every call needs them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "success_status", success_status(self.channel))
        object.__setattr__(self, "channel_name", self.channel.value)

    @property
    def looks_up(self) -> bool:
        """Whether its provider can be asked; a target's own look-up is not part of it."""
        return self.evidence.look_up is not None


class AttemptFacts(NamedTuple):
    """What the ledger knows of the attempt being judged.

    `maybe_received` is true when an earlier call of this item ended in silence; `repeats` counts
    the calls of this very attempt that were abandoned before.
    """

    number: int
    submitted_at: datetime
    closed_at: datetime
    maybe_received: bool = False
    most_attempts: int | None = None
    """The most attempts for the item, whatever its contract would allow."""
    final_reasons: frozenset[str] = frozenset()
    uncounted_calls: int = 0
    repeats: int = 0
    memory: ReferenceMemory = NEVER
    """How long the gateway that was called remembers a reference."""

    @property
    def is_remembered(self) -> bool:
        return self.memory.holds(self.submitted_at, self.closed_at)


class Verdict(NamedTuple):
    """What to write: the item's status, the contract's judgement, and when to continue, if ever."""

    status: ItemStatus
    intent_status: IntentStatus
    progress: Progress
    reason: str | None = None
    error: str | None = None
    exhausted_reason: ExhaustedReason | None = None
    provider_message_id: str | None = None
    next_attempt_at: datetime | None = None
    in_doubt: bool = False
    maybe_received: bool = False
    given_back: bool = False
    """The call was not an attempt: the item waits again, for `reason`."""
    counts_as_call: bool = False
    """For a call handed back: the target was contacted, if only for a connection."""

    @property
    def final_outcome(self) -> str | None:
        match self.intent_status:
            case IntentStatus.ACCEPTED:
                return "accepted"
            case IntentStatus.REJECTED:
                return self.reason
            case IntentStatus.PENDING | IntentStatus.EXHAUSTED:
                return None
            case other:
                assert_never(other)


DelaySeconds = Callable[[int, float | None], float]
"""(attempts made, Retry-After in seconds or None) → seconds until the next attempt."""


def judge(
    contract: Contract,
    gateway: GatewayType,
    facts: AttemptFacts,
    result: CallResult,
    delay_seconds: DelaySeconds,
) -> Verdict:
    match result:
        case NotBegun():
            return _given_back(facts, None, None, None)
        case Throttled(detail, retry_after, closes, reason):
            return _deferred(facts, closes, retry_after, delay_seconds, reason, detail)
        case Held(reason, detail, closes):
            return _deferred(facts, closes, None, delay_seconds, reason, detail)
        case AttemptError(code=code, detail=detail) if is_unreachable(result):
            wait = delay_seconds(facts.number + facts.uncounted_calls, None)
            due = facts.closed_at + timedelta(seconds=wait)
            return _given_back(facts, due, code, detail)
        case Accepted(message_id):
            deadline = contract.deadline(facts.submitted_at)
            return accept(gateway, deadline, facts.closed_at, message_id)
        case Rejected(reason, detail) if reason == DUPLICATE_REFERENCE and _meets_itself(facts):
            if not facts.is_remembered:
                return _in_doubt(Progress.ANSWERED, reason, detail)
            deadline = contract.deadline(facts.submitted_at)
            proven = accept(gateway, deadline, facts.closed_at, None)
            return proven._replace(reason=reason, error=detail or None)
        case Rejected(reason, detail) if reason in SAYS_NOTHING_OF_IT and facts.maybe_received:
            return _in_doubt(Progress.ANSWERED, reason, detail)
        case Rejected(reason, detail) if (
            reason in contract.terminal_outcomes or reason in facts.final_reasons
        ):
            return Verdict(
                ItemStatus.FAILED, IntentStatus.REJECTED, Progress.ANSWERED, reason, detail or None
            )
        case Rejected(reason, detail, retry_after):
            # A gateway that remembers and rejects this reference proves that it never accepted it
            # before.
            doubtful = facts.maybe_received and not facts.is_remembered
            due = facts.closed_at + timedelta(seconds=delay_seconds(facts.number, retry_after))
            return _retry_or_end(
                contract, facts, due, Progress.ANSWERED, reason, detail, doubtful=doubtful
            )
        case AttemptError(progress, code, detail, retry_after):
            silent = progress is Progress.SENT_NO_ANSWER
            if silent and not facts.is_remembered:
                return _in_doubt(progress, code, detail)
            due = facts.closed_at + timedelta(seconds=delay_seconds(facts.number, retry_after))
            # What came back was not an answer, and is not recorded as one.
            far = Progress.SENT_NO_ANSWER if progress is Progress.ANSWERED else progress
            return _retry_or_end(
                contract, facts, due, far, code, detail,
                doubtful=silent or facts.maybe_received,
            )  # fmt: skip
        case other:
            assert_never(other)


def _deferred(
    facts: AttemptFacts,
    closes: Closes,
    retry_after: float | None,
    delay_seconds: DelaySeconds,
    reason: str,
    detail: str,
) -> Verdict:
    """A deferral by the target keeps the item's place in the queue; a deferral of the item alone
    postpones it, and eventually ends it."""
    if closes is Closes.THE_DOOR:
        return _given_back(facts, None, reason, detail)
    waited = (facts.closed_at - facts.submitted_at).total_seconds()
    if waited >= DEFERRED_MAX_SECONDS and not facts.maybe_received:
        return Verdict(
            ItemStatus.FAILED, IntentStatus.EXHAUSTED, Progress.ANSWERED, reason, detail or None,
            ExhaustedReason.MAX_ATTEMPTS,
        )  # fmt: skip
    wait = delay_seconds(facts.number + facts.uncounted_calls, retry_after)
    due = facts.closed_at + timedelta(seconds=wait)
    return _given_back(facts, due, reason, detail)


def _given_back(
    facts: AttemptFacts, due: datetime | None, reason: str | None, detail: str | None
) -> Verdict:
    """No attempt was made, so no policy is used up. Without a time it keeps its place in the
    queue."""
    return Verdict(
        ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, reason, detail or None,
        next_attempt_at=due, maybe_received=facts.maybe_received, given_back=True,
        counts_as_call=reason is not None,
    )  # fmt: skip


def _meets_itself(facts: AttemptFacts) -> bool:
    """Whether "duplicate" can only refer to an earlier call of ours: after a silence, or where a
    call is refused while the one it repeats is in progress. Otherwise it is a rejection."""
    return facts.maybe_received or (facts.memory.while_in_flight and facts.repeats > 0)


def accept(
    gateway: GatewayType, deadline: datetime | None, closed_at: datetime, message_id: str | None
) -> Verdict:
    """The same as `judge` for an acceptance, which needs little knowledge of the attempt."""
    intent, exhausted = IntentStatus.ACCEPTED, None
    if deadline is not None and closed_at >= deadline:
        intent, exhausted = IntentStatus.EXHAUSTED, ExhaustedReason.DEADLINE_EXCEEDED
    # Positional arguments: this is the verdict that is made a million times.
    return Verdict(
        gateway.success_status, intent, Progress.ANSWERED, None, None, exhausted, message_id
    )


def _in_doubt(progress: Progress, code: str, detail: str) -> Verdict:
    return Verdict(
        ItemStatus.QUEUED, IntentStatus.PENDING, progress, code, detail or None, in_doubt=True
    )


def _retry_or_end(
    contract: Contract,
    facts: AttemptFacts,
    due: datetime,
    progress: Progress,
    reason: str,
    detail: str,
    *,
    doubtful: bool,
) -> Verdict:
    exhausted = _exhausted(contract, facts, due)
    if exhausted is None:
        return Verdict(
            ItemStatus.QUEUED, IntentStatus.PENDING, progress, reason, detail or None,
            next_attempt_at=due, maybe_received=doubtful,
        )  # fmt: skip
    if doubtful:
        # The policy is used up, but a call may have arrived: both are true, and neither is a
        # failure.
        return _in_doubt(progress, reason, detail)._replace(
            intent_status=IntentStatus.EXHAUSTED,
            exhausted_reason=exhausted,
        )
    return Verdict(
        ItemStatus.FAILED, IntentStatus.EXHAUSTED, progress, reason, detail or None, exhausted
    )


def next_after_absence(contract: Contract, facts: AttemptFacts, due: datetime) -> datetime | None:
    """A silent attempt is proven never to have arrived: when the next one may go; None if the
    contract allows no other."""
    return due if _exhausted(contract, facts, due) is None else None


def _exhausted(contract: Contract, facts: AttemptFacts, due: datetime) -> ExhaustedReason | None:
    if facts.most_attempts is not None and facts.number >= facts.most_attempts:
        return ExhaustedReason.MAX_ATTEMPTS
    match contract.policy:
        case Deadline(max_acceptance_seconds=seconds):
            deadline = facts.submitted_at + timedelta(seconds=seconds)
            return None if due < deadline else ExhaustedReason.DEADLINE_EXCEEDED
        case MaxAttempts(max_attempts=most):
            return None if facts.number < most else ExhaustedReason.MAX_ATTEMPTS
        case OneShot():
            return ExhaustedReason.ONE_SHOT
        case other:
            assert_never(other)

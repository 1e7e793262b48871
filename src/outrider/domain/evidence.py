"""The evidence that can settle a doubt: what each provider can say about a call, and until when. A
family declares what its provider documents, a target may add to it, and `next_step` decides from
both what to try next, and when. Nothing here makes a request.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from outrider.domain.reference_memory import NEVER, ReferenceMemory


class Settles(StrEnum):
    """What a doubt waits for: the next evidence that can come."""

    RECEIPT = "receipt"
    KEY = "key"
    LOOK_UP = "look_up"
    PERSON = "person"


class EvidenceKind(StrEnum):
    """What a verdict relies on."""

    RECEIPT = "receipt"
    """The provider reported on our reference."""
    KEY = "key"
    """The provider recognises a repeated reference, so the call was repeated."""
    LOOK_UP = "look_up"
    """The provider was asked for our reference."""
    CONTENT = "look_up_by_content"
    """The provider was asked for a message with this recipient, time and body."""
    RECORD = "record"
    """A complete record of what the provider received: its export, or its log."""
    PERSON = "person"
    """A person's statement."""


class Match(StrEnum):
    """How a look-up recognises a message."""

    REFERENCE = "reference"
    CONTENT = "content"

    @property
    def kind(self) -> EvidenceKind:
        return EvidenceKind.LOOK_UP if self is Match.REFERENCE else EvidenceKind.CONTENT


class Finding(StrEnum):
    """What a provider's look-up says about a message."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class LookedUp(NamedTuple):
    """The answer about one message."""

    finding: Finding
    provider_message_ids: tuple[str, ...] = ()
    """Ids of the messages that were found. By content there may be several, and some may belong to
    other items."""
    detail: str = ""
    """What was found, or why it is not known."""
    unclear_ids: tuple[str, ...] = ()
    """By content: to the same recipient at that time, but with another text. Unless they are other
    items', one of them may be ours, as its provider changed it."""
    is_silence: bool = False
    """Unknown because the provider did not answer, which may change at any time."""
    retry_after_seconds: float | None = None
    """The provider does not want to be asked before that."""


ABSENT: Final = LookedUp(Finding.ABSENT)


def unknown(why: str) -> LookedUp:
    return LookedUp(Finding.UNKNOWN, detail=why)


def silence(why: str, retry_after_seconds: float | None = None) -> LookedUp:
    return LookedUp(
        Finding.UNKNOWN, detail=why, is_silence=True, retry_after_seconds=retry_after_seconds
    )


@dataclass(frozen=True, slots=True)
class LookUp:
    """A provider can be asked. `Absent` is evidence only after the delay and within the
    retention."""

    match: Match
    delay_seconds: float
    """How far behind its records may be: counted from the moment the call came into doubt."""
    retention_seconds: float
    """How long it keeps them: counted from the item's submission."""
    asks: str
    """The request, as the documentation shows it."""
    source: str
    compares: tuple[str, ...] = ("reference",)
    """What has to agree."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """Our reference comes back in the provider's events. They prove arrival, never absence."""

    returns: str
    """Where the reference is found in them."""
    within_seconds: float = 3_600.0
    """A receipt that has not come by then is no longer waited for, though it still settles."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a family's provider can prove. The key is `GatewayType.remembers`, which came first."""

    look_up: LookUp | None = None
    receipts: Receipts | None = None
    needs_same_request: bool = False
    """A repeat under a key is refused unless it is the same to the byte."""
    collapses: str | None = None
    """How a repeat replaces the first message on the device; it is still a second call."""
    declared_look_up: bool = False
    """A target may name its own look-up, because any server may speak this protocol."""


WEAR_DOUBLINGS: Final = 2
NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class TargetEvidence:
    """What one target, as it is set up, can prove."""

    memory: ReferenceMemory = NEVER
    look_up: LookUp | None = None
    receipts: Receipts | None = None
    needs_same_request: bool = False


@dataclass(frozen=True, slots=True)
class CheckSchedule:
    """When a doubt is looked into: soon at first, then less and less often."""

    first_seconds: float
    factor: float
    cap_seconds: float
    worn_out_seconds: float = 0.0
    """Before a call is repeated that cost its worker as often as one may; doubled twice."""
    eager_checks: int = 1_000_000
    """After this many checks, only the late rate is used: a person may have to act."""
    late_seconds: float = 0.0

    def is_late(self, checks: int) -> bool:
        return checks >= self.eager_checks

    def wait_seconds(self, checks: int) -> float:
        """The delay before the next check, after that many."""
        return self.late_seconds if self.is_late(checks) else self.eager_seconds(checks)

    def eager_seconds(self, checks: int) -> float:
        # The exponent is bounded: a float overflows at about a thousand doublings.
        return min(self.cap_seconds, self.first_seconds * self.factor ** min(checks, 64))


class DoubtFacts(NamedTuple):
    """What the ledger knows about a doubt."""

    submitted_at: datetime
    doubted_at: datetime
    checked_at: datetime | None = None
    checks: int = 0
    """How often its evidence was asked for."""
    may_repeat: bool = True
    """Its run and contract let this attempt be repeated, and it has not cost too many workers."""
    is_same_request: bool = True
    """The request would be the same to the byte as the one in doubt."""
    wear: int | None = None
    """If its call cost as many workers as one may: how often it was repeated since. Many kills in a
    row wear out messages that are not to blame, and one that is must not kill for ever."""


class NextStep(NamedTuple):
    """How a doubt settles next. Without a time, only a person can settle it; or a receipt that
    comes late, which always does. A person's with a time is looked into now and then, too."""

    settles: Settles
    since: datetime
    next_check_at: datetime | None = None


def next_step(
    evidence: TargetEvidence, facts: DoubtFacts, now: datetime, schedule: CheckSchedule
) -> NextStep:
    """A receipt settles whenever it comes; else a key, else a look-up, else a person."""
    doubted_at = facts.doubted_at
    waited_from = facts.checked_at or doubted_at
    # Repeats pass the target's gate, which knows when nobody is there: they need no late rate.
    due = waited_from + timedelta(seconds=schedule.eager_seconds(facts.checks))
    if facts.wear is not None:
        wait = schedule.worn_out_seconds * 2 ** min(facts.wear, WEAR_DOUBLINGS)
        due = doubted_at + timedelta(seconds=wait)
    if can_repeat(evidence, facts, max(now, due)):
        return NextStep(Settles.KEY, doubted_at, due)
    due = waited_from + timedelta(seconds=schedule.wait_seconds(facts.checks))
    left_at = doubted_at
    look_up = evidence.look_up
    if look_up is not None:
        conclusive_at = concludes_at(look_up, doubted_at)
        if waited_from < conclusive_at < due:
            due = conclusive_at
        ends_at = facts.submitted_at + timedelta(seconds=look_up.retention_seconds)
        if max(now, due) < ends_at:
            if schedule.is_late(facts.checks):
                # It was answered again and again, and nothing followed from it.
                return NextStep(Settles.PERSON, waited_from, due)
            return NextStep(Settles.LOOK_UP, doubted_at, due)
        left_at = max(left_at, min(now, ends_at))
    if evidence.receipts is not None:
        ends_at = doubted_at + timedelta(seconds=evidence.receipts.within_seconds)
        if now < ends_at:
            return NextStep(Settles.RECEIPT, doubted_at, ends_at)
        left_at = max(left_at, ends_at)
    return NextStep(Settles.PERSON, left_at)


def can_repeat(evidence: TargetEvidence, facts: DoubtFacts, at: datetime) -> bool:
    """Whether a repeat under the same reference, made then, is certainly no second message."""
    if not facts.may_repeat or (evidence.needs_same_request and not facts.is_same_request):
        return False
    return evidence.memory.allows_repeat(facts.submitted_at, at)


def concludes_at(look_up: LookUp, doubted_at: datetime) -> datetime:
    """From when on `absent` proves that a message never arrived."""
    return doubted_at + timedelta(seconds=look_up.delay_seconds)

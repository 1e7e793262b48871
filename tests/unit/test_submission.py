"""Judging an attempt: what the gateway said, under the contract, and what is never assumed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.call_results import (
    CAUSED_BY_THE_MESSAGE,
    DUPLICATE_REFERENCE,
    TARGET_THROTTLED,
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
from outrider.domain.contracts import contract_document, contract_from_document, contract_sha256
from outrider.domain.reference_memory import FOR_GOOD, IN_FLIGHT, NEVER, ReferenceMemory
from outrider.domain.states import SUCCESSES, Channel, IntentStatus, ItemStatus
from outrider.domain.submission import (
    DEFERRED_MAX_SECONDS,
    AttemptFacts,
    Contract,
    Deadline,
    ExhaustedReason,
    GatewayType,
    MaxAttempts,
    OneShot,
    Policy,
    Verdict,
    judge,
)

SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)
REASONS = frozenset({"invalid_recipient", "provider_failure", DUPLICATE_REFERENCE})
DEDUPES = GatewayType("sms", Channel.SMS, REASONS, remembers=FOR_GOOD)
FORGETS = GatewayType("smtp", Channel.EMAIL, REASONS)
SILENCE = AttemptError(Progress.SENT_NO_ANSWER, "timeout")
REFUSED = AttemptError(Progress.NOT_SENT, "connection_refused")
UNENCODABLE = AttemptError(Progress.NOT_SENT, "unencodable")
FAILURE = Rejected("provider_failure")
TEN_SECONDS = Deadline(10)


def contract(policy: Policy, *terminal: str) -> Contract:
    return Contract("target", "sms", "http://gateway", "realtime", policy, frozenset(terminal))


def verdict(
    result: CallResult,
    *,
    policy: Policy | None = None,
    gateway: GatewayType = DEDUPES,
    terminal: tuple[str, ...] = (),
    number: int = 1,
    after_seconds: float = 1,
    delay_seconds: float = 5,
    maybe_received: bool = False,
    repeats: int = 0,
    memory: ReferenceMemory | None = None,
) -> Verdict:
    facts = AttemptFacts(
        number, SUBMITTED, SUBMITTED + timedelta(seconds=after_seconds), maybe_received,
        repeats=repeats, memory=memory or gateway.remembers or NEVER,
    )  # fmt: skip
    terms = contract(policy or MaxAttempts(5), *terminal)
    return judge(terms, gateway, facts, result, lambda _attempts, _retry_after: delay_seconds)


def test_an_acceptance_is_sent_and_accepted() -> None:
    judged = verdict(Accepted("m-1"))
    assert (judged.status, judged.intent_status) == (ItemStatus.SENT, IntentStatus.ACCEPTED)
    assert judged.provider_message_id == "m-1"
    assert judged.final_outcome == "accepted"


def test_an_acceptance_before_the_deadline_is_accepted() -> None:
    judged = verdict(Accepted(), policy=TEN_SECONDS, after_seconds=9.999)
    assert judged.intent_status is IntentStatus.ACCEPTED


@pytest.mark.parametrize("after_seconds", [10, 10.001, 3_600])
def test_an_acceptance_from_the_deadline_on_is_sent_and_exhausted(after_seconds: float) -> None:
    judged = verdict(Accepted("m-1"), policy=TEN_SECONDS, after_seconds=after_seconds)
    assert (judged.status, judged.intent_status) == (ItemStatus.SENT, IntentStatus.EXHAUSTED)
    assert judged.exhausted_reason is ExhaustedReason.DEADLINE_EXCEEDED
    assert judged.provider_message_id == "m-1"
    assert judged.final_outcome is None


@pytest.mark.parametrize(("delay_seconds", "retries"), [(8.999, True), (9, False), (9.001, False)])
def test_a_retry_is_scheduled_only_strictly_before_the_deadline(
    delay_seconds: float, retries: bool
) -> None:
    judged = verdict(Rejected("provider_failure"), policy=TEN_SECONDS, delay_seconds=delay_seconds)
    if retries:
        due = SUBMITTED + timedelta(seconds=1 + delay_seconds)
        assert (judged.status, judged.next_attempt_at) == (ItemStatus.QUEUED, due)
        assert judged.intent_status is IntentStatus.PENDING
    else:
        assert (judged.status, judged.next_attempt_at) == (ItemStatus.FAILED, None)
        assert judged.exhausted_reason is ExhaustedReason.DEADLINE_EXCEEDED


def test_the_deadline_is_cumulative_over_attempts() -> None:
    late = verdict(FAILURE, policy=TEN_SECONDS, number=3, after_seconds=6, delay_seconds=4)
    assert late.exhausted_reason is ExhaustedReason.DEADLINE_EXCEEDED


@given(st.integers(min_value=1, max_value=20), st.integers(min_value=1, max_value=20))
def test_max_attempts_allows_exactly_that_many(number: int, most: int) -> None:
    judged = verdict(FAILURE, policy=MaxAttempts(most), number=number)
    if number < most:
        assert judged.status is ItemStatus.QUEUED
        assert judged.next_attempt_at is not None
    else:
        assert judged.status is ItemStatus.FAILED
        assert judged.exhausted_reason is ExhaustedReason.MAX_ATTEMPTS


@pytest.mark.parametrize("result", [UNENCODABLE, FAILURE])
def test_one_shot_makes_a_single_attempt(result: CallResult) -> None:
    judged = verdict(result, policy=OneShot())
    assert (judged.status, judged.intent_status) == (ItemStatus.FAILED, IntentStatus.EXHAUSTED)
    assert judged.exhausted_reason is ExhaustedReason.ONE_SHOT
    assert judged.next_attempt_at is None


@given(st.sampled_from(sorted(REASONS)), st.sets(st.sampled_from(sorted(REASONS))))
def test_only_listed_rejections_are_terminal(reason: str, terminal: set[str]) -> None:
    judged = verdict(Rejected(reason, "why"), terminal=tuple(terminal))
    if reason in terminal:
        assert (judged.status, judged.intent_status) == (ItemStatus.FAILED, IntentStatus.REJECTED)
        assert judged.final_outcome == reason
        assert judged.exhausted_reason is None
    else:
        assert (judged.status, judged.intent_status) == (ItemStatus.QUEUED, IntentStatus.PENDING)
        assert judged.next_attempt_at is not None
    assert judged.error == "why"


def test_a_terminal_rejection_is_rejected_even_on_the_last_attempt() -> None:
    judged = verdict(
        Rejected("invalid_recipient"), terminal=("invalid_recipient",), policy=OneShot()
    )
    assert judged.intent_status is IntentStatus.REJECTED


policies = st.one_of(
    st.builds(MaxAttempts, st.integers(min_value=1, max_value=9)),
    st.builds(Deadline, st.floats(min_value=0.1, max_value=3_600)),
    st.just(OneShot()),
)


@given(policies, st.integers(min_value=1, max_value=9), st.floats(min_value=0, max_value=3_600))
def test_silence_at_a_gateway_that_forgets_is_doubt_and_never_a_retry(
    policy: Policy, number: int, after_seconds: float
) -> None:
    judged = verdict(
        SILENCE, policy=policy, gateway=FORGETS, number=number, after_seconds=after_seconds
    )
    assert judged.in_doubt
    assert judged.next_attempt_at is None
    assert (judged.status, judged.intent_status) == (ItemStatus.QUEUED, IntentStatus.PENDING)


def test_silence_at_a_gateway_that_dedupes_is_tried_again_and_remembered() -> None:
    judged = verdict(SILENCE)
    assert judged.next_attempt_at == SUBMITTED + timedelta(seconds=6)
    assert judged.maybe_received
    assert not judged.in_doubt


@pytest.mark.parametrize("result", [REFUSED, UNENCODABLE])
def test_a_request_that_was_never_sent_is_retried_without_a_doubt(result: AttemptError) -> None:
    for gateway in (DEDUPES, FORGETS):
        judged = verdict(result, gateway=gateway)
        assert judged.next_attempt_at is not None
        assert not judged.maybe_received
        assert not judged.in_doubt


def test_a_message_that_cannot_be_transmitted_because_of_itself_uses_up_an_attempt() -> None:
    for code in CAUSED_BY_THE_MESSAGE:
        judged = verdict(AttemptError(Progress.NOT_SENT, code), policy=OneShot())
        assert not judged.given_back
        assert (judged.status, judged.reason) == (ItemStatus.FAILED, code)


turned_away = st.one_of(
    st.builds(NotBegun, st.just("withheld")),
    st.builds(
        Throttled, st.just("HTTP 429"), st.none() | st.floats(0, 3_600), st.sampled_from(Closes)
    ),
    st.builds(AttemptError, st.just(Progress.NOT_SENT), st.just("connection_refused")),
)


@given(
    turned_away,
    policies,
    st.sampled_from([DEDUPES, FORGETS]),
    st.integers(min_value=1, max_value=9),
    st.floats(min_value=0, max_value=3_600),
    st.booleans(),
)
def test_a_call_that_was_turned_away_uses_up_no_policy(
    result: CallResult,
    policy: Policy,
    gateway: GatewayType,
    number: int,
    after_seconds: float,
    maybe_received: bool,
) -> None:
    """Only a deadline ends it, and that is judged by the clock alone."""
    judged = verdict(
        result, policy=policy, gateway=gateway, number=number, after_seconds=after_seconds,
        maybe_received=maybe_received,
    )  # fmt: skip
    assert judged.given_back
    assert (judged.status, judged.intent_status) == (ItemStatus.QUEUED, IntentStatus.PENDING)
    assert (judged.exhausted_reason, judged.in_doubt) == (None, False)
    assert judged.progress is Progress.NOT_SENT
    # What an earlier silence left open is still open.
    assert judged.maybe_received == maybe_received
    # What was never begun asked nothing of the target.
    assert judged.counts_as_call != isinstance(result, NotBegun)


def test_a_door_that_closed_says_when_it_opens_and_an_item_waits_in_its_place() -> None:
    for result in (NotBegun("withheld"), Throttled("HTTP 503", 20)):
        assert verdict(result).next_attempt_at is None


def test_an_item_that_is_refused_alone_gets_a_time_to_retry() -> None:
    told: list[tuple[int, float | None]] = []

    def delay_seconds(attempts: int, retry_after_seconds: float | None) -> float:
        told.append((attempts, retry_after_seconds))
        return 20

    facts = AttemptFacts(2, SUBMITTED, SUBMITTED + timedelta(seconds=1), uncounted_calls=3)
    greylisted = Throttled("450 4.2.0 greylisted", 7, Closes.THE_ITEM)
    judged = judge(contract(OneShot()), FORGETS, facts, greylisted, delay_seconds)
    assert judged.next_attempt_at == SUBMITTED + timedelta(seconds=21)
    assert (judged.reason, judged.error) == (TARGET_THROTTLED, "450 4.2.0 greylisted")
    # It is asked less and less often, although none of its calls was an attempt.
    assert told == [(5, 7)]


def test_only_what_never_left_and_is_not_its_own_fault_says_that_a_target_is_unreachable() -> None:
    assert is_unreachable(REFUSED)
    for result in (UNENCODABLE, SILENCE, FAILURE, Accepted(), Throttled(), NotBegun("withheld")):
        assert not is_unreachable(result)


@pytest.mark.parametrize("result", [SILENCE, UNENCODABLE])
def test_policy_used_up_after_silence_is_doubt_and_not_failure(result: AttemptError) -> None:
    judged = verdict(result, policy=MaxAttempts(2), number=2, maybe_received=True)
    assert judged.in_doubt
    assert judged.status is ItemStatus.QUEUED


def test_policy_used_up_by_the_first_silence_is_doubt_and_not_failure() -> None:
    assert verdict(SILENCE, policy=OneShot()).in_doubt


def test_a_rejection_by_a_gateway_that_dedupes_ends_the_doubt() -> None:
    judged = verdict(
        Rejected("provider_failure"), policy=MaxAttempts(2), number=2, maybe_received=True
    )
    assert judged.status is ItemStatus.FAILED
    assert judged.exhausted_reason is ExhaustedReason.MAX_ATTEMPTS


def test_a_duplicate_reference_on_a_later_attempt_proves_receipt() -> None:
    judged = verdict(Rejected(DUPLICATE_REFERENCE, "seen"), number=2, maybe_received=True)
    assert (judged.status, judged.intent_status) == (ItemStatus.SENT, IntentStatus.ACCEPTED)
    # S1: what the gateway said stays.
    assert (judged.reason, judged.error) == (DUPLICATE_REFERENCE, "seen")
    assert judged.final_outcome == "accepted"


@pytest.mark.parametrize("memory", [NEVER, IN_FLIGHT, ReferenceMemory(60)])
@pytest.mark.parametrize("terminal", [(), (DUPLICATE_REFERENCE,)])
def test_a_duplicate_reference_after_a_silence_proves_nothing_beyond_the_declared_memory(
    memory: ReferenceMemory, terminal: tuple[str, ...]
) -> None:
    """S1: nor does it prove that nothing arrived, so the item is in doubt, with its words."""
    judged = verdict(
        Rejected(DUPLICATE_REFERENCE, "seen"), memory=memory, terminal=terminal, number=2,
        after_seconds=60, maybe_received=True,
    )  # fmt: skip
    assert judged.in_doubt
    assert judged.intent_status is IntentStatus.PENDING
    assert (judged.reason, judged.error) == (DUPLICATE_REFERENCE, "seen")


def test_a_duplicate_reference_within_a_declared_memory_proves_receipt() -> None:
    judged = verdict(
        Rejected(DUPLICATE_REFERENCE), memory=ReferenceMemory(60), after_seconds=59.9,
        maybe_received=True,
    )  # fmt: skip
    assert judged.status is ItemStatus.SENT


def test_a_repeat_that_meets_its_first_call_in_flight_is_in_doubt() -> None:
    """S1: the earlier call is under way, which is neither a receipt nor a refusal."""
    duplicate = Rejected(DUPLICATE_REFERENCE)
    terminal = (DUPLICATE_REFERENCE,)
    assert verdict(duplicate, memory=IN_FLIGHT, repeats=1, terminal=terminal).in_doubt
    first = verdict(duplicate, memory=IN_FLIGHT, terminal=terminal)
    assert (first.status, first.intent_status) == (ItemStatus.FAILED, IntentStatus.REJECTED)


@pytest.mark.parametrize("memory", [NEVER, IN_FLIGHT, ReferenceMemory(60)])
def test_a_silence_beyond_the_declared_memory_is_in_doubt(memory: ReferenceMemory) -> None:
    """B3: nobody is assumed to remember."""
    assert verdict(SILENCE, memory=memory, after_seconds=60).in_doubt


def test_a_duplicate_reference_proves_receipt_even_where_it_is_listed_as_terminal() -> None:
    judged = verdict(
        Rejected(DUPLICATE_REFERENCE), number=2, maybe_received=True,
        terminal=(DUPLICATE_REFERENCE,),
    )  # fmt: skip
    assert judged.status is ItemStatus.SENT


def test_a_duplicate_reference_on_a_first_attempt_is_a_rejection_like_any_other() -> None:
    refused = verdict(Rejected(DUPLICATE_REFERENCE), terminal=(DUPLICATE_REFERENCE,))
    assert (refused.status, refused.intent_status) == (ItemStatus.FAILED, IntentStatus.REJECTED)
    assert verdict(Rejected(DUPLICATE_REFERENCE)).status is ItemStatus.QUEUED


def test_a_duplicate_reference_without_a_silence_before_it_proves_nothing() -> None:
    """A fallback that says so on its first call never had the item from us."""
    assert verdict(Rejected(DUPLICATE_REFERENCE), number=2).status is ItemStatus.QUEUED


def test_a_duplicate_reference_proves_nothing_at_a_gateway_that_forgets() -> None:
    judged = verdict(Rejected(DUPLICATE_REFERENCE), gateway=FORGETS, number=2)
    assert judged.status is ItemStatus.QUEUED


def test_a_late_proof_of_receipt_is_sent_and_exhausted() -> None:
    judged = verdict(
        Rejected(DUPLICATE_REFERENCE), policy=TEN_SECONDS, number=2, after_seconds=11,
        maybe_received=True,
    )  # fmt: skip
    assert (judged.status, judged.intent_status) == (ItemStatus.SENT, IntentStatus.EXHAUSTED)


def test_the_schedule_receives_the_attempt_and_the_retry_after() -> None:
    told: list[tuple[int, float | None]] = []

    def delay_seconds(attempts: int, retry_after_seconds: float | None) -> float:
        told.append((attempts, retry_after_seconds))
        return 1

    facts = AttemptFacts(3, SUBMITTED, SUBMITTED)
    broken = AttemptError(Progress.ANSWERED, "invalid_answer", retry_after_seconds=7)
    judge(contract(MaxAttempts(9)), DEDUPES, facts, broken, delay_seconds)
    judge(
        contract(MaxAttempts(9)), DEDUPES, facts, Rejected("x", retry_after_seconds=8),
        delay_seconds,
    )  # fmt: skip
    assert told == [(3, 7), (3, 8)]


results = st.one_of(
    st.builds(Accepted, st.none() | st.text(max_size=5)),
    st.builds(Rejected, st.sampled_from(sorted(REASONS))),
    st.builds(AttemptError, st.sampled_from(Progress), st.sampled_from(["code", "unencodable"])),
    st.builds(Throttled, st.just("later"), st.none() | st.floats(0, 60), st.sampled_from(Closes)),
    st.builds(NotBegun, st.just("withheld")),
)


@given(
    results,
    policies,
    st.sampled_from([DEDUPES, FORGETS]),
    st.sets(st.sampled_from(sorted(REASONS))),
    st.integers(min_value=1, max_value=9),
    st.floats(min_value=0, max_value=3_600),
    st.booleans(),
)
def test_every_result_has_exactly_one_ending(
    result: CallResult,
    policy: Policy,
    gateway: GatewayType,
    terminal: set[str],
    number: int,
    after_seconds: float,
    maybe_received: bool,
) -> None:
    judged = verdict(
        result, policy=policy, gateway=gateway, terminal=tuple(terminal), number=number,
        after_seconds=after_seconds, maybe_received=maybe_received,
    )  # fmt: skip
    waits = judged.status is ItemStatus.QUEUED
    goes_on = judged.next_attempt_at is not None or judged.given_back
    assert waits == (goes_on or judged.in_doubt)
    assert not (judged.in_doubt and judged.given_back)
    assert not (judged.in_doubt and judged.next_attempt_at)
    # Both can be true: the contract is used up, and whether the call arrived is not known.
    used_up = judged.in_doubt and judged.intent_status is IntentStatus.EXHAUSTED
    assert waits == (judged.intent_status is IntentStatus.PENDING or used_up)
    assert (judged.intent_status is IntentStatus.EXHAUSTED) == (judged.exhausted_reason is not None)
    # Silence is never success: only an answer can make an item a success.
    if judged.status in SUCCESSES:
        assert isinstance(result, Accepted | Rejected)
        assert judged.progress is Progress.ANSWERED


@given(policies, st.sets(st.text(max_size=10)))
def test_a_contract_survives_its_own_document(policy: Policy, terminal: set[str]) -> None:
    terms = contract(policy, *terminal)
    again = contract_from_document(contract_document(terms))
    assert again == terms
    assert contract_sha256(again) == contract_sha256(terms)


@pytest.mark.parametrize("policy", [OneShot(), MaxAttempts(1), TEN_SECONDS])
@pytest.mark.parametrize("maybe_received", [False, True])
@pytest.mark.parametrize("closes", list(Closes))
def test_a_refusal_of_our_setup_is_not_an_attempt_and_settles_nothing(
    policy: Policy, maybe_received: bool, closes: Closes
) -> None:
    """A3, A5: it ends no item and no doubt."""
    held = Held("unauthorized", "unknown key", closes)
    judged = verdict(held, policy=policy, terminal=("unauthorized",), maybe_received=maybe_received)
    assert judged.given_back
    assert (judged.status, judged.intent_status) == (ItemStatus.QUEUED, IntentStatus.PENDING)
    assert (judged.reason, judged.error) == ("unauthorized", "unknown key")
    assert (judged.in_doubt, judged.maybe_received) == (False, maybe_received)


def test_a_message_postponed_for_days_by_its_recipient_is_given_up_in_the_end() -> None:
    """A4: a mailbox that is full for good must not keep its run open for ever."""
    full = Throttled("452 4.2.2 mailbox full", closes=Closes.THE_ITEM)
    assert verdict(full, after_seconds=DEFERRED_MAX_SECONDS - 1).given_back
    judged = verdict(full, after_seconds=DEFERRED_MAX_SECONDS)
    assert (judged.status, judged.intent_status) == (ItemStatus.FAILED, IntentStatus.EXHAUSTED)
    # What may have arrived earlier does not fail by this, and a target's own state ends nobody.
    assert verdict(full, after_seconds=DEFERRED_MAX_SECONDS, maybe_received=True).given_back
    assert verdict(Throttled("HTTP 503"), after_seconds=DEFERRED_MAX_SECONDS).given_back


def test_an_answer_that_was_none_is_not_recorded_as_one() -> None:
    """S4: the progress says how an attempt is told, and `rejected` it was not."""
    invalid = AttemptError(Progress.ANSWERED, "invalid_answer", "<html>")
    for policy in (OneShot(), MaxAttempts(5)):
        judged = verdict(invalid, policy=policy, gateway=FORGETS)
        assert (judged.progress, judged.in_doubt) == (Progress.SENT_NO_ANSWER, False)

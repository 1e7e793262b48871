"""The attempt judge: what a call's result means for its item, and when it is called again."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from outrider.bootstrap import Outrider
from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Held,
    NotBegun,
    Progress,
    Rejected,
)
from outrider.domain.ids import Fence, IdempotencyKey, JobId, OutboxId, RecipientId, WorkerId
from outrider.domain.retry import DIRECT, MAIL, Patience, RetrySchedule
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import (
    Contract,
    Deadline,
    ExhaustedReason,
    MaxAttempts,
    Verdict,
)
from outrider.domain.targets import TargetPolicy
from outrider.kernel.delivery.attempt_judge import BEHIND_THE_PROBE, AttemptJudge, log_verdict
from outrider.kernel.delivery.reservations import AttemptIdentity, OpenAttempt
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.transactions.reserving import Draft
from outrider.testing.launches import target
from outrider.testing.store_suite.workshop import NOON
from tests.support.whole_runs import IMPATIENT, opened

TARGET, URL = "mail.main", "smtp://127.0.0.1:9"
BREAKER_SECONDS = 40.0
CONTRACT = Contract(
    TARGET, "smtp", URL, "realtime", MaxAttempts(5), frozenset({"invalid_recipient"})
)
UNREACHABLE = AttemptError(Progress.NOT_SENT, "connection_refused")
WHO = AttemptIdentity(
    JobId("j"), 1, CONTRACT, Fence(1), NOON, maybe_received=False,
    call_by=NOON + timedelta(seconds=60),
)  # fmt: skip


@pytest.fixture
async def outrider(tmp_path: Path) -> AsyncIterator[Outrider]:
    # No judgement is read from a store or written to one, so that one kind is enough.
    database = f"sqlite:///{tmp_path}/outrider.db"
    async with opened(database, tmp_path, target(TARGET, "smtp", URL)) as made:
        yield made


@pytest.fixture
def judged(outrider: Outrider) -> Any:
    policy = TargetPolicy(breaker_seconds=BREAKER_SECONDS)
    gate = TargetGate(outrider.foundation, {TARGET: policy}, TargetPolicy(), WorkerId("w"))
    judge = AttemptJudge(outrider.foundation, gate)
    gateway = outrider.gateways.gateway(TARGET, "smtp", URL)

    def verdict(result: CallResult, **changes: Any) -> Verdict:
        return judge.judge(gateway, replace(WHO, **changes), NOON, result)

    return verdict


def waited(verdict: Verdict) -> float:
    assert verdict.next_attempt_at is not None
    return (verdict.next_attempt_at - NOON).total_seconds()


def test_an_accepted_message_is_sent_under_its_providers_id(judged: Any) -> None:
    verdict = judged(Accepted("m-1"))
    assert (verdict.status, verdict.intent_status) == (ItemStatus.SENT, IntentStatus.ACCEPTED)
    assert verdict.provider_message_id == "m-1"


def test_a_refused_mail_waits_as_long_as_mail_does(judged: Any) -> None:
    verdict = judged(Rejected("mailbox_full"))
    assert verdict.status is ItemStatus.QUEUED
    most = MAIL.first_seconds * (1 + MAIL.jitter_share)
    assert MAIL.first_seconds <= waited(verdict) <= most


def test_an_unreachable_target_uses_up_no_attempt_and_does_not_wait_as_mail_does(
    judged: Any,
) -> None:
    verdict = judged(UNREACHABLE)
    assert verdict.given_back
    assert waited(verdict) == DIRECT.first_seconds


def test_a_message_refused_by_a_held_target_goes_after_the_probe(judged: Any) -> None:
    verdict = judged(Held("unauthorized"))
    assert verdict.given_back
    assert waited(verdict) == BEHIND_THE_PROBE * BREAKER_SECONDS


def test_an_item_not_started_keeps_its_position_unless_its_time_is_over(judged: Any) -> None:
    contract = replace(CONTRACT, policy=Deadline(60))
    in_time = judged(NotBegun("paused"), contract=contract)
    assert in_time.given_back
    assert in_time.next_attempt_at is None
    submitted_at = NOON - timedelta(seconds=60)
    overdue = judged(NotBegun("paused"), contract=contract, submitted_at=submitted_at)
    assert waited(overdue) == IMPATIENT.expire_seconds


def test_an_items_own_patience_goes_before_the_targets_schedule(judged: Any) -> None:
    patience = Patience(RetrySchedule(first_seconds=7.0), 2, frozenset({"mailbox_full"}))
    assert waited(judged(Rejected("other"), patience=patience)) == 7.0
    ended = judged(Rejected("other"), patience=patience, number=2)
    assert ended.status is ItemStatus.FAILED
    assert ended.exhausted_reason is ExhaustedReason.MAX_ATTEMPTS
    final = judged(Rejected("mailbox_full"), patience=patience)
    assert (final.status, final.intent_status) == (ItemStatus.FAILED, IntentStatus.REJECTED)


def test_attempts_before_a_step_was_restarted_do_not_count(judged: Any) -> None:
    assert judged(Rejected("other"), number=5).status is ItemStatus.FAILED
    assert judged(Rejected("other"), number=5, attempts_before=4).status is ItemStatus.QUEUED


@pytest.mark.parametrize(
    ("result", "number", "event"),
    [
        (Accepted("m-1"), 1, None),
        (Rejected("other"), 1, "retry_scheduled"),
        (Rejected("other"), 5, "retries_exhausted"),
        (Rejected("invalid_recipient"), 1, "delivery_rejected"),
    ],
)
def test_a_message_that_did_not_go_through_at_once_is_logged(
    judged: Any, result: CallResult, number: int, event: str | None
) -> None:
    draft = Draft(
        OutboxId("o-1"), RecipientId("r"), "ada@example.test", None, "Hi", IdempotencyKey("k"),
        ItemStatus.QUEUED, None, None,
    )  # fmt: skip
    attempt = OpenAttempt(draft.id, draft, replace(WHO, number=number))
    with capture_logs() as logged:
        log_verdict(attempt, judged(result, number=number))
    assert [line["event"] for line in logged] == ([event] if event else [])
    assert all((line["outbox_id"], line["attempt"]) == ("o-1", number) for line in logged)
    assert "ada@example.test" not in repr(logged)

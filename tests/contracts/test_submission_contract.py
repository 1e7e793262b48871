"""Contract 001, a test a clause: intents, targets, policies, and the registry that binds them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.bootstrap import Outrider, open_outrider
from outrider.documents.registry import parse_registry
from outrider.domain.call_results import Accepted, Rejected
from outrider.domain.errors import IdempotencyConflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import DIRECT, RetrySchedule
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import AttemptFacts, Contract, Deadline, judge
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent
from outrider.limits.kernel import Limits
from outrider.settings import Settings
from outrider.testing.launches import registry, remembering, target
from tests.support.raw_sql import raw_sql

WAIT_SECONDS = 60
SOON = RetrySchedule(first_seconds=0.05)
FAST = Limits(idle_poll_seconds=0.01)
PAYLOAD = {"to": "+447700900123", "message": "Hello", "anything": {"else": [1, None]}}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

EXAMPLE = {
    "targets": [
        {
            "submissionTarget": "sms.realtime",
            "gatewayType": "sms",
            "gatewayUrl": "http://localhost:8080",
            "mode": "realtime",
            "policy": "deadline",
            "maxAcceptanceSeconds": 30,
            "terminalOutcomes": ["invalid_request", "invalid_recipient", "invalid_message"],
        },
        {
            "submissionTarget": "push.realtime",
            "gatewayType": "push",
            "gatewayUrl": "http://localhost:8081",
            "mode": "realtime",
            "policy": "deadline",
            "maxAcceptanceSeconds": 30,
            "terminalOutcomes": ["invalid_request", "unregistered_token"],
        },
    ]
}


class Gateway:
    """A real HTTP gateway that answers from a script; its last answer is repeated."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    async def serve(self, request: web.BaseRequest) -> web.Response:
        self.requests.append(json.loads(await request.read()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(text=text, content_type="application/json")


ACCEPTED = {"status": "accepted", "gatewayMessageId": "g-1"}
FAILURE = {"status": "rejected", "reason": "provider_failure"}


@asynccontextmanager
async def answering(*answers: object) -> AsyncIterator[Gateway]:
    gateway = Gateway(*answers)
    runner = web.ServerRunner(web.Server(gateway.serve))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    gateway.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield gateway
    finally:
        await runner.cleanup()


@asynccontextmanager
async def submitting(
    database: str, folder: Path, *entries: dict[str, object], work: bool = True
) -> AsyncIterator[Outrider]:
    file = folder / "registry.json"
    file.write_bytes(registry(*entries))
    settings = Settings(
        database_url=database, registry=file, targets=remembering("sms.realtime", "push.realtime")
    )
    async with open_outrider(settings, limits=FAST) as outrider:
        await outrider.store.migrate()
        if not work:
            yield outrider
            return
        async with outrider.worker(retry=SOON) as worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            yield outrider
            worker.stop()


async def submit(
    outrider: Outrider, intent_id: str = "intent-1", payload: dict[str, Any] | None = None
) -> Intent:
    given = Submission(intent_id, "sms.realtime", payload or PAYLOAD)
    intent, _ = await outrider.submissions.submit(DEFAULT_SCOPE, given)
    return intent


async def completed(
    outrider: Outrider,
    intent_id: str = "intent-1",
    reached: Callable[[Intent], bool] = lambda intent: intent.status != "PENDING",
) -> tuple[Intent, list[Attempt]]:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
            if reached(intent):
                return intent, attempts
            await asyncio.sleep(0.01)


def entry(gateway: Gateway, **terms: Any) -> dict[str, object]:
    return target("sms.realtime", "sms", gateway.url, **terms)


# Terms and roles


async def test_an_intent_is_intent_id_submission_target_and_opaque_payload(
    database: str, tmp_path: Path
) -> None:
    async with (
        answering(ACCEPTED) as gateway,
        submitting(database, tmp_path, entry(gateway)) as outrider,
    ):
        stored = await submit(outrider)
        await completed(outrider)
    assert (stored.intent_id, stored.submission_target) == ("intent-1", "sms.realtime")
    assert json.loads(stored.payload) == PAYLOAD
    [request] = gateway.requests
    assert len(request.pop("referenceId")) == 64
    assert request == PAYLOAD


async def test_gateway_type_is_bound_by_the_registry_and_not_by_the_targets_name(
    database: str, tmp_path: Path
) -> None:
    async with answering(ACCEPTED) as gateway:
        misleading = target("sms.realtime", "push", gateway.url)
        async with submitting(database, tmp_path, misleading) as outrider:
            await submit(outrider)
            intent, _ = await completed(outrider)
    assert intent.status == "ACCEPTED"


async def test_the_first_attempt_is_made_immediately(database: str, tmp_path: Path) -> None:
    async with (
        answering(ACCEPTED) as gateway,
        submitting(database, tmp_path, entry(gateway)) as outrider,
    ):
        await submit(outrider)
        intent, attempts = await completed(outrider)
    waited = attempts[0].opened_at - intent.created_at
    assert waited < timedelta(seconds=DIRECT.first_seconds)


async def test_the_contract_is_resolved_at_submission_and_execution_does_not_re_resolve(
    database: str, tmp_path: Path
) -> None:
    async with answering(ACCEPTED) as first, answering(ACCEPTED) as second:
        async with submitting(database, tmp_path, entry(first), work=False) as outrider:
            await submit(outrider)
        async with submitting(database, tmp_path, entry(second)) as outrider:
            await completed(outrider)
    assert (len(first.requests), len(second.requests)) == (1, 0)


# Orchestration outcomes


async def test_accepted_when_the_gateway_accepts_before_the_deadline(
    database: str, tmp_path: Path
) -> None:
    async with answering(ACCEPTED) as gateway:
        terms = entry(gateway, policy="deadline", maxAcceptanceSeconds=30)
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, _ = await completed(outrider)
    assert (intent.status, intent.final_outcome) == ("ACCEPTED", "accepted")
    assert intent.exhausted_reason is None


@pytest.mark.parametrize(
    ("seconds", "status"), [(29.999, "ACCEPTED"), (30, "EXHAUSTED"), (31, "EXHAUSTED")]
)
def test_an_acceptance_at_or_after_the_deadline_is_exhausted_though_it_was_sent(
    seconds: float, status: str
) -> None:
    contract = Contract("t", "sms", "http://x", "realtime", Deadline(30), frozenset())
    facts = AttemptFacts(3, NOON, NOON + timedelta(seconds=seconds))
    verdict = judge(contract, GATEWAY_TYPES["sms"], facts, Accepted(), lambda *_: 5.0)
    assert verdict.intent_status == status
    assert verdict.status is ItemStatus.SENT


async def test_rejected_when_the_reason_is_a_terminal_outcome(
    database: str, tmp_path: Path
) -> None:
    refusal = {"status": "rejected", "reason": "invalid_recipient"}
    async with answering(refusal) as gateway:
        terms = entry(gateway, terminal_outcomes=["invalid_recipient"])
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, attempts = await completed(outrider)
    assert (intent.status, intent.final_outcome) == ("REJECTED", "invalid_recipient")
    assert len(attempts) == 1


async def test_only_listed_reasons_are_terminal_and_the_others_are_recorded_and_retried(
    database: str, tmp_path: Path
) -> None:
    refusal = {"status": "rejected", "reason": "invalid_message"}
    async with answering(refusal, FAILURE, ACCEPTED) as gateway:
        terms = entry(gateway, terminal_outcomes=["invalid_recipient"])
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, attempts = await completed(outrider)
    assert intent.status == "ACCEPTED"
    assert [attempt.reason for attempt in attempts] == ["invalid_message", "provider_failure", None]


@pytest.mark.parametrize(
    ("terms", "reason", "requests"),
    [
        ({"policy": "max_attempts", "maxAttempts": 3}, "max_attempts", 3),
        ({"policy": "one_shot"}, "one_shot", 1),
    ],
)
async def test_exhausted_when_policy_ends_without_acceptance_or_terminal_rejection(
    database: str, tmp_path: Path, terms: dict[str, Any], reason: str, requests: int
) -> None:
    async with (
        answering(FAILURE) as gateway,
        submitting(database, tmp_path, entry(gateway, **terms)) as outrider,
    ):
        await submit(outrider)
        intent, attempts = await completed(outrider)
    assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", reason)
    assert len(attempts) == len(gateway.requests) == requests


async def test_exhausted_when_the_deadline_passes_which_is_cumulative_over_attempts(
    database: str, tmp_path: Path
) -> None:
    async with answering(FAILURE) as gateway:
        terms = entry(gateway, policy="deadline", maxAcceptanceSeconds=1.5)
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, attempts = await completed(outrider)
    assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "deadline_exceeded")
    assert len(attempts) > 1


@pytest.mark.parametrize(("delay", "retried"), [(9.999, True), (10.0, False), (10.001, False)])
def test_a_retry_is_scheduled_only_strictly_before_the_acceptance_deadline(
    delay: float, retried: bool
) -> None:
    contract = Contract("t", "sms", "http://x", "realtime", Deadline(30), frozenset())
    facts = AttemptFacts(1, NOON, NOON + timedelta(seconds=20))
    verdict = judge(
        contract, GATEWAY_TYPES["sms"], facts, Rejected("provider_failure"), lambda *_: delay
    )
    assert (verdict.next_attempt_at is not None) is retried
    assert verdict.intent_status is (IntentStatus.PENDING if retried else IntentStatus.EXHAUSTED)


async def test_final_outcome_is_only_for_accepted_and_rejected_intents(
    database: str, tmp_path: Path
) -> None:
    async with (
        answering(FAILURE) as gateway,
        submitting(database, tmp_path, entry(gateway, policy="one_shot")) as outrider,
    ):
        pending = await submit(outrider)
        intent, _ = await completed(outrider)
    assert pending.final_outcome is None
    assert (intent.status, intent.final_outcome) == ("EXHAUSTED", None)


async def test_terminal_intents_are_append_only(database: str, tmp_path: Path) -> None:
    async with (
        answering(FAILURE) as gateway,
        submitting(database, tmp_path, entry(gateway, policy="one_shot")) as outrider,
    ):
        await submit(outrider)
        ended, _ = await completed(outrider)
        gateway.answers = [ACCEPTED]
        assert await submit(outrider) == ended
        await submit(outrider, "intent-2")
        await completed(outrider, "intent-2")
        assert (await completed(outrider))[0] == ended
    assert len(gateway.requests) == 2


async def test_a_repeated_intent_id_with_the_same_content_returns_the_existing_intent(
    database: str, tmp_path: Path
) -> None:
    async with (
        answering(ACCEPTED) as gateway,
        submitting(database, tmp_path, entry(gateway)) as outrider,
    ):
        await submit(outrider)
        done, _ = await completed(outrider)
        shuffled = dict(reversed(PAYLOAD.items()))
        assert await submit(outrider, payload=shuffled) == done
    assert len(gateway.requests) == 1


async def test_a_repeated_intent_id_with_other_content_is_an_idempotency_conflict(
    database: str, tmp_path: Path
) -> None:
    other = target("other", "noop", "noop:")
    async with (
        answering(ACCEPTED) as gateway,
        submitting(database, tmp_path, entry(gateway), other, work=False) as outrider,
    ):
        await submit(outrider)
        with pytest.raises(IdempotencyConflict):
            await submit(outrider, payload={**PAYLOAD, "message": "Bye"})
        with pytest.raises(IdempotencyConflict):
            await outrider.submissions.submit(
                DEFAULT_SCOPE, Submission("intent-1", "other", PAYLOAD)
            )


@pytest.mark.parametrize(
    "nonsense",
    [
        {"referenceId": "x"},
        {"gatewayMessageId": "1"},
        {"status": "rejected"},
        {"status": "perhaps"},
        {"status": None},
        "not json",
        [],
    ],
)
async def test_invalid_gateway_outcomes_are_attempt_errors_and_not_terminal(
    tmp_path: Path, nonsense: object
) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    async with (
        answering(nonsense, ACCEPTED) as gateway,
        submitting(database, tmp_path, entry(gateway)) as outrider,
    ):
        await submit(outrider)
        intent, attempts = await completed(outrider)
    assert intent.status == "ACCEPTED"
    assert attempts[0].reason == "invalid_answer"
    assert len(gateway.requests) == 2


async def test_a_gateways_own_reason_keeps_its_name_and_is_terminal_where_the_contract_lists_it(
    database: str, tmp_path: Path
) -> None:
    """S4, M: the contract's reasons "include" those it names; others are no errors."""
    refusal = {"status": "rejected", "reason": "bad_weather"}
    async with answering(refusal, refusal) as gateway:
        terms = entry(gateway, terminal_outcomes=["bad_weather"])
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, attempts = await completed(outrider)
        assert (intent.status, intent.final_outcome) == ("REJECTED", "bad_weather")
        assert [(each.outcome, each.reason) for each in attempts] == [("rejected", "bad_weather")]
        assert '"reason":"bad_weather"' in (attempts[0].error or "").replace(" ", "")


async def test_an_invalid_answer_is_an_error_with_the_gateways_own_words(
    database: str, tmp_path: Path
) -> None:
    """S4: it was recorded as a rejection."""
    async with answering({"status": "rejected", "why": "rain"}) as gateway:
        terms = entry(gateway, policy="one_shot")
        async with submitting(database, tmp_path, terms) as outrider:
            await submit(outrider)
            intent, attempts = await completed(outrider)
            contract = await outrider.submissions.contract_of(intent)
            shown = intent_document(intent, attempts, contract)
    assert (intent.status, intent.reason) == ("EXHAUSTED", "invalid_answer")
    assert [(each.outcome, each.reason) for each in attempts] == [("error", "invalid_answer")]
    assert "rain" in str(shown["error"])
    assert "rain" in shown["attempts"][0]["error"]  # type: ignore[index]


async def test_intent_state_survives_a_restart(database: str, tmp_path: Path) -> None:
    """The contract's phase 2 kept it in memory; here it is durable."""
    async with answering(FAILURE) as gateway:
        async with submitting(database, tmp_path, entry(gateway, maxAttempts=99)) as outrider:
            await submit(outrider)
            await completed(outrider, reached=lambda intent: intent.attempts >= 2)
        gateway.answers = [ACCEPTED]
        async with submitting(database, tmp_path, entry(gateway)) as outrider:
            intent, attempts = await completed(outrider)
    assert intent.status == "ACCEPTED"
    assert len(attempts) == len(gateway.requests) >= 3


async def test_the_view_submission_intents_speaks_the_contracts_vocabulary(
    database: str, tmp_path: Path
) -> None:
    async with (
        answering(FAILURE) as gateway,
        submitting(database, tmp_path, entry(gateway, policy="one_shot")) as outrider,
    ):
        await submit(outrider)
        await completed(outrider)
    async with raw_sql(database) as raw:
        rows = await raw.run(
            "SELECT intent_id, submission_target, status, final_outcome, exhausted_reason, attempts"
            " FROM submission_intents"
        )
        attempts = await raw.run(
            "SELECT a.attempt, a.reason FROM submission_attempts a"
            " JOIN submission_intents i ON i.outbox_id = a.outbox_id"
        )
    assert rows == [("intent-1", "sms.realtime", "EXHAUSTED", None, "one_shot", 1)]
    assert attempts == [(1, "provider_failure")]


# Retry timing


def test_retry_timing_is_a_fixed_five_seconds_unless_settings_say_otherwise() -> None:
    assert [DIRECT.delay_seconds(attempts) for attempts in (1, 2, 50)] == [5.0, 5.0, 5.0]


@pytest.mark.parametrize("field", ["retryDelaySeconds", "backoff", "rate", "fallback", "timeout"])
def test_retry_timing_is_not_a_contract_term(field: str) -> None:
    given = {"targets": [{**EXAMPLE["targets"][0], field: 5}]}
    with pytest.raises(InvalidInput) as refused:
        parse_registry(json.dumps(given).encode(), GATEWAY_TYPES)
    assert [problem.path for problem in refused.value.problems] == [f"targets[0].{field}"]


# The registry


def test_the_contracts_own_example_is_a_valid_registry() -> None:
    contracts = parse_registry(json.dumps(EXAMPLE).encode(), GATEWAY_TYPES).contracts
    assert sorted(contracts) == ["push.realtime", "sms.realtime"]
    assert contracts["sms.realtime"].policy == Deadline(30)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"gatewayType": "pigeon"}, "gatewayType"),
        ({"gatewayUrl": "ftp://x"}, "gatewayUrl"),
        ({"gatewayUrl": "http://user:secret@x"}, "gatewayUrl"),
        ({"mode": "sometimes"}, "mode"),
        ({"policy": "forever"}, "policy"),
        ({"maxAcceptanceSeconds": None}, "maxAcceptanceSeconds"),
        ({"maxAcceptanceSeconds": 0}, "maxAcceptanceSeconds"),
        ({"maxAcceptanceSeconds": -1}, "maxAcceptanceSeconds"),
        ({"maxAttempts": 3}, "maxAttempts"),
        ({"terminalOutcomes": ["accepted"]}, "terminalOutcomes[0]"),
        ({"terminalOutcomes": ["so\nwhat"]}, "terminalOutcomes[0]"),
        ({"policy": "one_shot"}, "maxAcceptanceSeconds"),
    ],
)
def test_every_rule_of_a_registry_entry_is_enforced(changes: dict[str, Any], path: str) -> None:
    broken = {**EXAMPLE["targets"][0], **changes}
    given = {key: value for key, value in broken.items() if value is not None}
    with pytest.raises(InvalidInput) as refused:
        parse_registry(json.dumps({"targets": [given]}).encode(), GATEWAY_TYPES)
    assert f"targets[0].{path}" in [problem.path for problem in refused.value.problems]


def test_a_submission_target_is_unique_in_the_registry() -> None:
    given = {"targets": [EXAMPLE["targets"][0]] * 2}
    with pytest.raises(InvalidInput) as refused:
        parse_registry(json.dumps(given).encode(), GATEWAY_TYPES)
    assert [each.path for each in refused.value.problems] == ["targets[1].submissionTarget"]


def test_the_gateway_outcome_taxonomies_are_the_contracts() -> None:
    assert GATEWAY_TYPES["sms"].rejection_reasons == {
        "invalid_request", "duplicate_reference", "invalid_recipient", "invalid_message",
        "provider_failure",
    }  # fmt: skip
    assert GATEWAY_TYPES["push"].rejection_reasons == {
        "invalid_request", "duplicate_reference", "provider_failure", "unregistered_token",
    }  # fmt: skip

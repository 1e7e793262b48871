"""Single messages from submit to outcome, against real sockets, on both stores."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import open_outrider
from outrider.domain.errors import IdempotencyConflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, intent_key
from outrider.domain.states import Channel
from outrider.domain.targets import DoorState
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.ports.store import Result, Transaction
from outrider.settings import Settings, TargetSettings
from outrider.testing.clock import ShiftedClock
from outrider.testing.launches import (
    launch,
    message,
    observe,
    people,
    registry,
    remembering,
    target,
    until_terminal,
)
from tests.support.eventually import eventually, observed_for
from tests.support.intents import (
    FAST,
    SOON,
    at_work,
    door_of,
    ended,
    opened,
    submit,
    until,
    until_door,
)


async def test_an_intent_is_accepted_and_its_payload_forwarded_unchanged(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "order-1")
            intent, attempts = await until(outrider, "order-1", ended)
        assert (intent.status, intent.final_outcome) == ("ACCEPTED", "accepted")
        assert [attempt.outcome for attempt in attempts] == ["accepted"]
        assert dict(sandbox.deliveries) == {intent_key("order-1"): 1}


async def test_a_repeat_is_the_same_intent_and_another_message_is_a_conflict(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("sms", "noop", "noop:")) as outrider:
        first, is_new = await outrider.submissions.submit(
            DEFAULT_SCOPE, Submission("a", "sms", {"to": "x", "message": "y"})
        )
        again, is_new_again = await outrider.submissions.submit(
            DEFAULT_SCOPE, Submission("a", "sms", {"message": "y", "to": "x"})
        )
        assert (is_new, is_new_again) == (True, False)
        assert again == first
        with pytest.raises(IdempotencyConflict):
            await submit(outrider, "a", to="x", message="other")


async def test_campaigns_start_nothing_while_an_urgent_message_is_submitted(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [target(mode, "noop", "noop:", mode=mode) for mode in ("realtime", "batch")]
    async with opened(database, tmp_path, *targets) as outrider:
        taken: list[bool] = []
        write = outrider.store.write

        async def noted(script: Transaction[Result]) -> Result:
            taken.append(outrider.right_of_way.is_taken)
            return await write(script)

        monkeypatch.setattr(outrider.store, "write", noted)
        for mode in ("batch", "realtime"):
            submission = Submission(mode, mode, {"to": "x", "message": "y"})
            await outrider.submissions.submit(DEFAULT_SCOPE, submission)
        assert taken == [False, True]
        assert not outrider.right_of_way.is_taken


async def test_a_batch_answers_each_of_its_intents(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path, target("sms", "noop", "noop:")) as outrider:
        batch = [
            Submission("a", "sms", {"n": 1}),
            Submission("a", "sms", {"n": 1}),
            Submission("a", "sms", {"n": 2}),
            Submission("b", "sms", {"n": 1}),
        ]
        first, twin, conflict, other = await outrider.submissions.submit_all(DEFAULT_SCOPE, batch)
        assert isinstance(first, tuple)
        assert isinstance(twin, tuple)
        assert isinstance(other, tuple)
        assert (first[1], twin[1], other[1]) == (True, False, True)
        assert isinstance(conflict, IdempotencyConflict)


@pytest.mark.parametrize(
    ("intent_id", "target_name", "payload", "path"),
    [
        ("", "sms", {}, "intentId"),
        ("a|b", "sms", {}, "intentId"),
        ("x" * 201, "sms", {}, "intentId"),
        ("a", "nowhere", {}, "submissionTarget"),
        ("a", "sms", {"x": "y" * 300_000}, "payload"),
        ("a", "sms", {"x": object()}, "payload"),
    ],
)
async def test_what_cannot_be_submitted_is_refused_with_its_path(
    tmp_path: Path, intent_id: str, target_name: str, payload: dict[str, Any], path: str
) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    async with opened(url, tmp_path, target("sms", "noop", "noop:")) as outrider:
        with pytest.raises(InvalidInput) as refused:
            await outrider.submissions.submit(
                DEFAULT_SCOPE, Submission(intent_id, target_name, payload)
            )
    assert path in [problem.path for problem in refused.value.problems]


async def test_a_retry_schedule_continues_after_a_restart(database: str, tmp_path: Path) -> None:
    async with Sandbox(Faults(fail_rate=1)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url, maxAttempts=100)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "a")
            await until(outrider, "a", lambda intent: intent.attempts >= 2)
        sandbox.change_faults({"failRate": 0})
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            intent, attempts = await until(outrider, "a", ended)
        assert intent.status == "ACCEPTED"
        assert [attempt.outcome for attempt in attempts[:2]] == ["rejected", "rejected"]
        assert sandbox.deliveries.total() == 1


async def test_an_intent_keeps_its_contract_when_the_registry_changes(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(fail_rate=1)) as sandbox:
        strict = target("sms", "sms", sandbox.http_url, policy="one_shot")
        async with opened(database, tmp_path, strict) as outrider:
            await submit(outrider, "a")
        patient = target("sms", "sms", "http://127.0.0.1:1", maxAttempts=9)
        async with opened(database, tmp_path, patient) as outrider, at_work(outrider):
            intent, attempts = await until(outrider, "a", ended)
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "one_shot")
        assert [attempt.reason for attempt in attempts] == ["provider_failure"]


async def test_silence_at_a_gateway_that_cannot_dedupe_puts_an_intent_in_doubt(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        entry = target("mail", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "a", "mail", to="a@example.test", subject="S", body="B")
            intent, _ = await until(outrider, "a", lambda each: each.doubted_at is not None)
            assert intent.status == "PENDING"
            await outrider.doubt_resolver.resolve(
                DEFAULT_SCOPE, intent.outbox_id, DoubtVerdict.SENT, "their log", "test"
            )
            intent, _ = await until(outrider, "a", ended)
            assert intent.status == "ACCEPTED"
        assert sandbox.requests == 1


async def test_an_attempt_its_worker_left_open_is_resubmitted_where_the_target_remembers(
    database: str, tmp_path: Path
) -> None:
    """The worker is stopped as by a crash: its task is gone, its lease runs out."""
    clock = ShiftedClock(tmp_path / "shift")
    async with Sandbox(Faults(latency_ms=60_000)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        file = tmp_path / "registry.json"
        file.write_bytes(registry(entry))
        settings = Settings(
            database_url=database,
            registry=file,
            spool=tmp_path / "spool",
            targets=remembering("sms"),
        )
        async with open_outrider(settings, limits=FAST, clock=clock) as outrider:
            await outrider.store.migrate()
            await submit(outrider, "a")
            async with outrider.worker(retry=SOON) as worker:
                crashed = asyncio.create_task(worker.run())

                async def received() -> bool:
                    return sandbox.requests > 0

                await eventually(received)
                crashed.cancel()
                await asyncio.wait([crashed])
        sandbox.change_faults({"latencyMs": 0})
        clock.shift(tmp_path / "shift", FAST.lease_seconds)
        async with (
            open_outrider(settings, limits=FAST, clock=clock) as outrider,
            at_work(outrider),
        ):
            intent, attempts = await until(outrider, "a", ended)
        assert intent.status == "ACCEPTED"
        # S2: the repeat is the same attempt.
        told = [(each.number, each.repeat, each.outcome) for each in attempts]
        assert told == [(1, 0, "abandoned"), (1, 1, "accepted")]
        assert intent.attempts == 1
        assert sandbox.deliveries.total() == 1


async def test_retry_after_slows_the_target_down_and_not_just_the_item(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(throttle_rate=1, retry_after_seconds=30)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "first")
            door = await until_door(outrider, DoorState.THROTTLED)
            assert door.opens_at is not None
            assert door.since is not None
            assert 29 < (door.opens_at - door.since).total_seconds() <= 30
            for number in range(20):
                await submit(outrider, f"later-{number}")
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(5))
            await observed_for(0.3)
            assert sandbox.requests == 1
            _, accounting = await observe(outrider, run_id)
            assert accounting.waiting == 5
            first, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "first")
            assert (first.status, first.attempts, attempts) == ("PENDING", 0, [])


async def test_throttling_uses_up_no_attempts_and_everything_continues_when_it_ends(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(throttle_rate=1, retry_after_seconds=0)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url, policy="one_shot")
        settings = {"sms": TargetSettings(breaker_seconds=0.2, retry_first_seconds=0.05)}
        async with (
            opened(database, tmp_path, entry, targets=settings) as outrider,
            at_work(outrider),
        ):
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(5))
            await submit(outrider, "a")

            async def refused_often() -> bool:
                return sandbox.outcomes["throttled"] >= 4

            await eventually(refused_often)
            sandbox.change_faults({"throttleRate": 0})
            accounting = await until_terminal(outrider, run_id)
            intent, attempts = await until(outrider, "a", ended)
        assert (intent.status, intent.attempts) == ("ACCEPTED", 1)
        assert [attempt.outcome for attempt in attempts] == ["accepted"]
        assert accounting.sent == 5
        assert sandbox.deliveries.total() == 6


async def test_a_rate_is_shared_by_all_workers_of_a_database(database: str, tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        settings = {"sms": TargetSettings(rate_per_second=40, burst=10)}
        async with (
            opened(database, tmp_path, entry, targets=settings) as one,
            opened(database, tmp_path, entry, targets=settings) as two,
        ):
            run_id = await launch(one, [message(Channel.SMS, "sms")], people(50), batch_size=10)
            began = asyncio.get_running_loop().time()
            async with at_work(one), at_work(two):
                accounting = await until_terminal(one, run_id)
            took = asyncio.get_running_loop().time() - began
        assert accounting.sent == 50
        # Ten at once, the other forty at forty a second.
        assert took >= 0.9


async def test_an_open_breaker_makes_items_wait_without_using_up_attempts(
    database: str, tmp_path: Path
) -> None:
    entry = target("sms", "sms", "http://127.0.0.1:1", maxAttempts=2)
    settings = {
        "sms": TargetSettings(breaker_failures=1, breaker_seconds=60, retry_first_seconds=0.05)
    }
    async with opened(database, tmp_path, entry, targets=settings) as outrider, at_work(outrider):
        await submit(outrider, "first")
        await until_door(outrider, DoorState.DOWN)
        for number in range(5):
            await submit(outrider, f"later-{number}")
        await observed_for(0.3)
        for number in range(5):
            intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, f"later-{number}")
            assert (intent.status, attempts) == ("PENDING", [])
        first, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "first")
        assert (first.status, first.attempts, attempts) == ("PENDING", 0, [])


async def test_a_probe_closes_the_breaker_and_everything_continues(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url, maxAttempts=50)
        settings = {
            "sms": TargetSettings(breaker_failures=3, breaker_seconds=0.3, retry_first_seconds=0.05)
        }
        async with opened(database, tmp_path, entry, targets=settings) as outrider:
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(20))
            async with at_work(outrider):
                await until_door(outrider, DoorState.DOWN)
                sandbox.change_faults({"dropRate": 0})
                accounting = await until_terminal(outrider, run_id)
            door = await door_of(outrider)
            assert door is not None
            assert door.is_open
        assert accounting.sent == 20
        assert sandbox.received()["duplicates"] == 0


async def test_a_fallback_is_used_after_a_proven_failure(database: str, tmp_path: Path) -> None:
    async with Sandbox(Faults(fail_rate=1)) as own, Sandbox() as backup:
        entries = (
            target("sms", "sms", own.http_url, maxAttempts=3),
            target("backup", "sms", backup.http_url),
        )
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        async with opened(database, tmp_path, *entries, targets=settings) as outrider:
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(10))
            async with at_work(outrider):
                accounting = await until_terminal(outrider, run_id)
                await submit(outrider, "direct")
                intent, attempts = await until(outrider, "direct", ended)
            rows = await outrider.store.read(
                ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=100)
            )
        assert intent.status == "ACCEPTED"
        assert [attempt.outcome for attempt in attempts] == ["rejected", "accepted"]
        assert accounting.sent == 10
        assert {row.attempts for row in rows} == {2}
        assert backup.deliveries.total() == 11
        assert own.requests == 11


async def test_a_fallback_is_used_where_the_target_cannot_be_reached_which_is_no_attempt(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as backup:
        entries = (
            target("sms", "sms", "http://127.0.0.1:1", policy="one_shot"),
            target("backup", "sms", backup.http_url),
        )
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        async with opened(database, tmp_path, *entries, targets=settings) as outrider:
            run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(10))
            async with at_work(outrider):
                accounting = await until_terminal(outrider, run_id)
                await submit(outrider, "direct")
                intent, attempts = await until(outrider, "direct", ended)
            rows = await outrider.store.read(
                ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=100)
            )
        assert intent.status == "ACCEPTED"
        assert [attempt.outcome for attempt in attempts] == ["accepted"]
        assert accounting.sent == 10
        assert {row.attempts for row in rows} == {1}
        assert backup.deliveries.total() == 11


async def test_a_fallback_is_never_used_on_silence(database: str, tmp_path: Path) -> None:
    async with Sandbox(Faults(drop_rate=1)) as first, Sandbox() as backup:
        entries = (
            target("sms", "sms", first.http_url, maxAttempts=4),
            target("backup", "sms", backup.http_url),
        )
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        async with (
            opened(database, tmp_path, *entries, targets=settings) as outrider,
            at_work(outrider),
        ):
            await submit(outrider, "a")
            await until(outrider, "a", lambda intent: intent.doubted_at is not None)
        assert first.requests == 4
        assert backup.requests == 0


async def test_a_doubt_at_a_gateway_that_dedupes_is_settled_by_asking_again(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url, maxAttempts=2)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "a")
            await until(outrider, "a", lambda intent: intent.doubted_at is not None)
            sandbox.change_faults({"dropRate": 0})
            done = await outrider.doubt_resolver.reconcile(
                DEFAULT_SCOPE, run_id=None, received=None, absent=None, evidence="", actor="test"
            )
            assert (done.asked_again, done.left) == (1, 0)
            intent, attempts = await until(outrider, "a", lambda each: each.item_status == "sent")
        # Both are true: it was sent, and its contract had been used up before that was known.
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "max_attempts")
        # S2, S7: no third attempt was made; the second was repeated to find out.
        told = [(each.number, each.repeat, each.outcome) for each in attempts]
        assert told == [(1, 0, "error"), (2, 0, "abandoned"), (2, 1, "accepted")]
        assert attempts[-1].reason == "duplicate_reference"
        assert sandbox.deliveries.total() == 1


async def test_a_doubt_at_a_gateway_that_cannot_dedupe_is_left_to_evidence(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        entry = target("mail", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, entry) as outrider, at_work(outrider):
            await submit(outrider, "a", "mail", to="a@example.test", subject="S", body="B")
            await until(outrider, "a", lambda each: each.doubted_at is not None)
            done = await outrider.doubt_resolver.reconcile(
                DEFAULT_SCOPE, run_id=None, received=None, absent=None, evidence="", actor="test"
            )
            assert (done.asked_again, done.left) == (0, 1)
        assert sandbox.requests == 1


async def test_after_a_silence_only_the_very_gateway_that_was_silent_is_asked(
    database: str, tmp_path: Path
) -> None:
    """The registry moves the fallback elsewhere; the item's silent attempt was not made there."""
    async with Sandbox(Faults(drop_rate=1)) as silent, Sandbox() as moved:
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        own = target("sms", "sms", "http://127.0.0.1:1", maxAttempts=6)
        before = (own, target("backup", "sms", silent.http_url))
        async with (
            opened(database, tmp_path, *before, targets=settings) as outrider,
            at_work(outrider),
        ):
            await submit(outrider, "a")
            await until(outrider, "a", lambda intent: intent.attempts >= 2)
        after = (own, target("backup", "sms", moved.http_url))
        async with opened(database, tmp_path, *after, targets=settings) as outrider:
            silent.change_faults({"dropRate": 0})
            async with at_work(outrider):
                await submit(outrider, "b")
                await until(outrider, "a", lambda each: each.item_status == "sent")
                await until(outrider, "b", ended)
        assert silent.deliveries[intent_key("a")] == 1
        assert dict(moved.deliveries) == {intent_key("b"): 1}


async def test_a_closed_fallback_does_not_hold_up_the_target_itself(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(fail_rate=1)) as own,
        Sandbox(Faults(throttle_rate=1, retry_after_seconds=600)) as backup,
    ):
        entries = (
            target("sms", "sms", own.http_url, maxAttempts=50),
            target("backup", "sms", backup.http_url),
        )
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        async with (
            opened(database, tmp_path, *entries, targets=settings) as outrider,
            at_work(outrider),
        ):
            for number in range(8):
                await submit(outrider, f"first-{number}")

            async def throttled() -> bool:
                return backup.requests > 0

            await eventually(throttled)
            own.change_faults({"failRate": 0})
            for number in range(20):
                await submit(outrider, f"later-{number}")
            for number in range(20):
                intent, _ = await until(outrider, f"later-{number}", ended)
                assert intent.status == "ACCEPTED"


async def test_a_fallback_that_cannot_be_used_does_not_stop_its_target(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(fail_rate=1)) as sandbox:
        entries = (
            target("sms", "sms", sandbox.http_url, maxAttempts=50),
            # Its credentials are missing, so no gateway can be made of it.
            target("backup", "twilio_sms", sandbox.http_url),
        )
        settings = {"sms": TargetSettings(fallback="backup", retry_first_seconds=0.05)}
        async with (
            opened(database, tmp_path, *entries, targets=settings) as outrider,
            at_work(outrider),
        ):
            await submit(outrider, "a")
            await until(outrider, "a", lambda intent: intent.attempts >= 2)
            sandbox.change_faults({"failRate": 0})
            intent, _ = await until(outrider, "a", ended)
            assert intent.status == "ACCEPTED"


async def test_no_call_is_made_after_the_acceptance_deadline(database: str, tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        entry = target("sms", "sms", sandbox.http_url, policy="deadline", maxAcceptanceSeconds=0.2)
        async with opened(database, tmp_path, entry) as outrider:
            await submit(outrider, "a")
            passed = outrider.clock.now() + timedelta(seconds=0.2)
            await eventually(lambda: outrider.clock.now() > passed)
            async with at_work(outrider):
                intent, _ = await until(outrider, "a", ended)
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "deadline_exceeded")
        assert sandbox.requests == 0


async def test_two_batches_with_the_same_intents_in_any_order_do_not_block_each_other(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("sms", "noop", "noop:")) as outrider:
        for round_number in range(5):
            names = [f"{round_number}-{number}" for number in range(100)]
            batch = [Submission(name, "sms", {"n": 1}) for name in names]
            answers = await asyncio.gather(
                outrider.submissions.submit_all(DEFAULT_SCOPE, batch),
                outrider.submissions.submit_all(DEFAULT_SCOPE, batch[::-1]),
            )
            fresh = [each[1] for answer in answers for each in answer if isinstance(each, tuple)]
            assert sum(fresh) == 100


async def test_one_providers_record_does_not_settle_another_providers_doubts(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as one, Sandbox(Faults(drop_rate=1)) as two:
        entries = (target("one", "smtp", one.smtp_url), target("two", "smtp", two.smtp_url))
        async with opened(database, tmp_path, *entries) as outrider, at_work(outrider):
            for name in ("one", "two"):
                await submit(outrider, name, name, to="a@example.test", subject="S", body="B")
                await until(outrider, name, lambda each: each.doubted_at is not None)
            done = await outrider.doubt_resolver.reconcile(
                DEFAULT_SCOPE,
                run_id=None,
                received={intent_key("one")},
                absent=DoubtVerdict.RESUBMIT,
                evidence="the log of one",
                actor="test",
                submission_target="one",
            )
            assert (done.sent, done.resubmitted, done.left) == (1, 0, 1)
        assert two.requests == 1

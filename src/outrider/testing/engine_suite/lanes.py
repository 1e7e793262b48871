"""Conformance: single messages, and what follows from domain events, are delivered as they come."""

from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, intent_key
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.submissions import Intent
from outrider.limits.campaigns import LANES_PER_TARGET
from outrider.testing.engine_suite.bench import MAIL, SMS, EngineBench
from outrider.testing.launches import ACTOR

TRIGGER = "order_shipped"


def lane_of(intent_id: str) -> int:
    return int(intent_key(intent_id)[:8], 16) % LANES_PER_TARGET


def of_one_lane(count: int) -> list[str]:
    """Ids of intents that share the first one's lane."""
    names = (f"intent-{number}" for number in range(100 * count))
    return [name for name in names if lane_of(name) == 0][:count]


async def submit(bench: EngineBench, intent_id: str, submission_target: str = SMS) -> None:
    payload = {"to": "+447700900123", "message": "Hello"}
    if submission_target == MAIL:
        payload = {"to": "a@example.test", "subject": "Hello", "body": "Hello"}
    submission = Submission(intent_id, submission_target, payload)
    await bench.outrider.submissions.submit(DEFAULT_SCOPE, submission)


async def judged(bench: EngineBench, *intent_ids: str) -> list[str]:
    """How each of them ended."""

    async def intent(intent_id: str) -> Intent:
        found, _ = await bench.outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
        return found

    async def all_are() -> bool:
        return all([(await intent(each)).status != "PENDING" for each in intent_ids])

    await bench.until(all_are)
    return [(await intent(each)).status for each in intent_ids]


class LaneConformance:
    async def test_single_messages_are_each_delivered_once(self, bench: EngineBench) -> None:
        before, meanwhile = [f"a-{number}" for number in range(8)], "b-0"
        for intent_id in before:
            await submit(bench, intent_id)
        async with bench.at_work():
            await submit(bench, meanwhile)
            assert set(await judged(bench, *before, meanwhile)) == {"ACCEPTED"}
        expected = {intent_key(intent_id): 1 for intent_id in (*before, meanwhile)}
        assert dict(bench.sandbox.deliveries) == expected

    async def test_a_message_that_comes_while_its_lane_is_worked_on_is_not_left_lying(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.latency_ms = 100
        first, *others = of_one_lane(4)
        async with bench.at_work():
            await submit(bench, first)
            await bench.until_requests(1)
            for intent_id in others:
                await submit(bench, intent_id)
            assert set(await judged(bench, first, *others)) == {"ACCEPTED"}
        assert bench.sandbox.requests == 4

    async def test_a_message_that_comes_long_after_its_lane_was_idle_is_delivered(
        self, bench: EngineBench
    ) -> None:
        async with bench.at_work():
            for intent_id in of_one_lane(3):
                await submit(bench, intent_id)
                assert await judged(bench, intent_id) == ["ACCEPTED"]
                # Long enough for an engine to have released the lane.
                await bench.another_run()
        assert set(bench.sandbox.deliveries.values()) == {1}

    async def test_a_message_that_will_be_retried_is_retried_when_it_is_due(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.fail_rate = 1.0
        async with bench.at_work():
            await submit(bench, "a")
            await bench.until_requests(2)
            bench.sandbox.faults.fail_rate = 0.0
            assert await judged(bench, "a") == ["ACCEPTED"]

    async def test_a_message_in_doubt_continues_after_its_verdict(self, bench: EngineBench) -> None:
        bench.sandbox.faults.drop_rate = 1.0
        resolver = bench.outrider.doubt_resolver
        async with bench.at_work():
            await submit(bench, "a", MAIL)

            async def is_doubted() -> bool:
                return any([True async for _ in resolver.doubts(DEFAULT_SCOPE)])

            await bench.until(is_doubted)
            bench.sandbox.faults.drop_rate = 0.0
            await bench.another_run()
            (doubt,) = [each async for each in resolver.doubts(DEFAULT_SCOPE)]
            verdict = DoubtVerdict.RESUBMIT
            await resolver.resolve(DEFAULT_SCOPE, doubt.id, verdict, "their log", ACTOR)
            assert await judged(bench, "a") == ["ACCEPTED"]
        assert bench.sandbox.deliveries[IdempotencyKey(intent_key("a"))] == 2

    async def test_what_follows_from_a_domain_event_is_delivered(self, bench: EngineBench) -> None:
        step = WrittenStep(
            1, Channel.SMS, "Hi {{ lead.firstName }}", submission_target=SMS,
            recipients=RecipientConfig(include_lead_contact=True),
        )  # fmt: skip
        rule = WrittenRule(TRIGGER, Channel.SMS, "lead", True, False, (step,))
        await bench.outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], ACTOR, prune=False)
        async with bench.at_work():
            for number in range(3):
                lead = {"id": f"l-{number}", "phone": f"+44770090012{number}", "firstName": "Ada"}
                event_id = f"event-{number}"
                await bench.outrider.emit(TRIGGER, event_id=event_id, subject={"lead": lead})
                await bench.until_requests(number + 1)
        assert list(bench.sandbox.deliveries.values()) == [1, 1, 1]

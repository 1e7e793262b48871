"""The conformance suite that every gateway family must pass: subclass it and provide a `bench`.

    class TestMyFamily(GatewayConformance):
        gateway_type, channel, status = "mine", Channel.SMS, ItemStatus.SENT
        address, refused_address = "+447700900123", "nobody"

The simulator is the provider; what it counted, and not what the gateway says, is the evidence.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    Accepted,
    AttemptError,
    CallResult,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.markup import is_html
from outrider.domain.message_content import Enclosure
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import AttemptFacts, Contract, OneShot, judge
from outrider.gateways.sandbox import Sandbox
from outrider.ports.gateway import Gateway, LookUpQuestion, Reservation

REFERENCE = "a7" * 32
RETRY_AFTER_SECONDS = 7.0
MANY = 60
FILE = Enclosure("quote.pdf", "application/pdf", b"%PDF-1.4")
STRANGE_TEXTS = ("", "\ud800", "a\r\nBcc: b@example.test", "\x00", "<&>\u2028'\"", "x" * 20_000)


@dataclass(frozen=True, slots=True)
class HeldReservation(Reservation):
    """A substitute for the kernel's own kind, where there is no ledger."""

    outbox_id: OutboxId
    reference: IdempotencyKey
    address: str
    subject: str | None
    body: str
    payload: Mapping[str, Any] | None = None
    enclosures: Sequence[Enclosure] = ()
    is_html: bool = False
    may_begin: bool = True

    def begin(self) -> bool:
        return self.may_begin


def reserve(
    address: str,
    *,
    reference: str = REFERENCE,
    subject: str | None = "Offer",
    body: str = "Hello",
    payload: Mapping[str, Any] | None = None,
    enclosures: Sequence[Enclosure] = (),
) -> HeldReservation:
    return HeldReservation(
        OutboxId("item"), IdempotencyKey(reference), address, subject, body, payload, enclosures,
        is_html(body),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatewayBench:
    """A simulator and gateways of one family: `gateway` calls it, `unreachable` reaches nothing."""

    sandbox: Sandbox
    gateway: Gateway
    unreachable: Gateway
    secrets: tuple[str, ...] = ()
    """Values of credentials, which must never appear again."""


class GatewayConformance:
    """One family, against the simulator. A subclass says what it expects of the family."""

    gateway_type: ClassVar[str]
    channel: ClassVar[Channel]
    status: ClassVar[ItemStatus]
    address: ClassVar[str]
    refused_address: ClassVar[str | None]
    """One that the provider or the gateway itself refuses; None if messages have no address."""
    payload: ClassVar[Mapping[str, Any]]
    """A direct intent's payload that the family sends."""
    says_when_to_return: ClassVar[bool] = True
    """Whether a throttled call returns Retry-After."""
    carries_enclosures: ClassVar[bool] = False

    def valid(self, **changes: Any) -> HeldReservation:
        return reserve(self.address, **changes)

    def check(self, bench: GatewayBench, result: CallResult) -> CallResult:
        """What holds for every result of every call."""
        if isinstance(result, Rejected):
            assert result.reason in bench.gateway.type.rejection_reasons, result
        for secret in bench.secrets:
            assert secret not in repr(result)
            assert secret not in repr(bench.gateway)
        return result

    async def test_the_family_is_what_it_declares(self, bench: GatewayBench) -> None:
        gateway = bench.gateway
        assert gateway.type.name == self.gateway_type
        assert gateway.type.channel is self.channel
        assert gateway.window_items >= gateway.concurrency >= 1
        if not gateway.memory.is_memory:
            # Everything open when a process dies is then in doubt.
            assert gateway.window_items == gateway.concurrency
        if not gateway.type.looks_up:
            assert gateway.looks_up is None
            question = LookUpQuestion(
                IdempotencyKey(REFERENCE), datetime.min, datetime.max, datetime.max
            )
            assert await gateway.look_up([question]) == {}

    async def test_an_accepted_call_is_delivered_once_under_its_reference(
        self, bench: GatewayBench
    ) -> None:
        result = self.check(bench, await bench.gateway.call(self.valid()))
        assert isinstance(result, Accepted), result
        assert bench.sandbox.deliveries == {REFERENCE: 1}
        assert self._judged(bench, result) is self.status

    async def test_many_calls_at_once_are_each_delivered_once(self, bench: GatewayBench) -> None:
        calls = [self.valid(reference=f"{number:064x}") for number in range(MANY)]
        results = await asyncio.gather(*(bench.gateway.call(call) for call in calls))
        assert all(isinstance(result, Accepted) for result in results)
        assert bench.sandbox.deliveries == {call.reference: 1 for call in calls}

    async def test_a_direct_intent_is_delivered_under_its_reference(
        self, bench: GatewayBench
    ) -> None:
        direct = reserve("", subject=None, body="", payload=self.payload)
        assert isinstance(self.check(bench, await bench.gateway.call(direct)), Accepted)
        assert bench.sandbox.deliveries == {REFERENCE: 1}

    async def test_a_direct_intent_that_says_nothing_is_rejected(self, bench: GatewayBench) -> None:
        for payload in ({}, {"to": 5, "body": []}):
            direct = reserve("", subject=None, body="", payload=payload)
            result = self.check(bench, await bench.gateway.call(direct))
            assert isinstance(result, Rejected), result
        assert not bench.sandbox.deliveries

    async def test_a_refused_recipient_is_rejected_within_the_taxonomy(
        self, bench: GatewayBench
    ) -> None:
        if self.refused_address is None:
            return
        result = self.check(bench, await bench.gateway.call(reserve(self.refused_address)))
        assert isinstance(result, Rejected), result
        assert not bench.sandbox.deliveries

    async def test_a_message_with_a_file_is_sent_with_it_or_not_at_all(
        self, bench: GatewayBench
    ) -> None:
        enclosing = self.valid(enclosures=[FILE])
        result = self.check(bench, await bench.gateway.call(enclosing))
        if self.carries_enclosures:
            assert isinstance(result, Accepted), result
            assert bench.sandbox.deliveries == {REFERENCE: 1}
        else:
            assert isinstance(result, Rejected), result
            assert bench.sandbox.requests == 0

    async def test_a_failing_provider_rejects_within_the_taxonomy(
        self, bench: GatewayBench
    ) -> None:
        bench.sandbox.faults.fail_rate = 1.0
        result = self.check(bench, await bench.gateway.call(self.valid()))
        assert isinstance(result, Rejected), result
        assert not bench.sandbox.deliveries

    async def test_a_refused_connection_is_not_sent(self, bench: GatewayBench) -> None:
        result = self.check(bench, await bench.unreachable.call(self.valid()))
        assert isinstance(result, AttemptError)
        assert result.progress is Progress.NOT_SENT

    async def test_a_line_that_dies_after_receipt_is_sent_no_answer(
        self, bench: GatewayBench
    ) -> None:
        bench.sandbox.faults.drop_rate = 1.0
        result = self.check(bench, await bench.gateway.call(self.valid()))
        assert isinstance(result, AttemptError)
        assert result.progress is Progress.SENT_NO_ANSWER
        assert bench.sandbox.deliveries == {REFERENCE: 1}

    async def test_throttling_says_when_to_retry(self, bench: GatewayBench) -> None:
        bench.sandbox.faults.throttle_rate = 1.0
        bench.sandbox.faults.retry_after_seconds = RETRY_AFTER_SECONDS
        result = self.check(bench, await bench.gateway.call(self.valid()))
        assert isinstance(result, Throttled), result
        assert result.detail
        if self.says_when_to_return:
            assert result.retry_after_seconds == RETRY_AFTER_SECONDS
        assert not bench.sandbox.deliveries

    async def test_a_call_without_permission_reaches_no_provider(self, bench: GatewayBench) -> None:
        withheld = replace(self.valid(), may_begin=False)
        result = self.check(bench, await bench.gateway.call(withheld))
        assert isinstance(result, NotBegun), result
        direct = reserve("", subject=None, body="", payload=self.payload)
        result = self.check(bench, await bench.gateway.call(replace(direct, may_begin=False)))
        assert isinstance(result, NotBegun), result
        assert bench.sandbox.requests == 0
        assert not bench.sandbox.deliveries
        # The unused connection is as good as before.
        assert isinstance(await bench.gateway.call(self.valid()), Accepted)

    async def test_of_many_calls_only_those_with_permission_are_delivered(
        self, bench: GatewayBench
    ) -> None:
        calls = [
            replace(self.valid(reference=f"{number:064x}"), may_begin=number % 2 == 0)
            for number in range(MANY)
        ]
        results = await asyncio.gather(*(bench.gateway.call(call) for call in calls))
        for call, result in zip(calls, results, strict=True):
            assert isinstance(result, Accepted if call.may_begin else NotBegun), result
        assert bench.sandbox.deliveries == {call.reference: 1 for call in calls if call.may_begin}

    async def test_a_repeat_is_delivered_as_often_as_the_family_declares(
        self, bench: GatewayBench
    ) -> None:
        bench.sandbox.faults.drop_rate = 1.0
        await bench.gateway.call(self.valid())
        bench.sandbox.faults.drop_rate = 0.0
        repeats = [
            self.check(bench, await bench.gateway.call(self.valid())),
            self.check(bench, await bench.gateway.call(self.valid())),
        ]
        dedupes = bench.gateway.memory.is_memory
        assert bench.sandbox.deliveries == {REFERENCE: 1 if dedupes else 3}
        for result in repeats:
            known = isinstance(result, Rejected) and result.reason == DUPLICATE_REFERENCE
            assert isinstance(result, Accepted) or known
        # The same reference gets the same answer, which is what makes a repeat harmless.
        assert not dedupes or repeats[0] == repeats[1]

    async def test_no_text_makes_a_call_raise(self, bench: GatewayBench) -> None:
        for text in STRANGE_TEXTS:
            for strange in (
                reserve(text),
                self.valid(subject=text),
                self.valid(body=text),
                self.valid(reference=text),
                reserve("", payload={**self.payload, "to": text}),
                reserve("", payload={"to": self.address, "subject": text, "body": text}),
            ):
                result = self.check(bench, await bench.gateway.call(strange))
                assert isinstance(result, Accepted | Rejected | AttemptError)

    def _judged(self, bench: GatewayBench, result: CallResult) -> ItemStatus:
        kind = bench.gateway.type
        contract = Contract("target", kind.name, "", "realtime", OneShot(), frozenset())
        now = datetime(2026, 1, 1, tzinfo=UTC)
        delay: Callable[[int, float | None], float] = lambda _attempts, _after: 5.0  # noqa: E731
        return judge(contract, kind, AttemptFacts(1, now, now), result, delay).status

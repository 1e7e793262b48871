"""The conformance suite that every reader of receipts must pass: subclass it, provide a `bench`.

    class TestMyFamily(ReceiptConformance):
        gateway_type = "mine"
        events = frozenset({ReceiptEvent.DELIVERED, ReceiptEvent.BOUNCED})

A bench knows how the provider writes and signs (`post`); what the reader makes of it is compared
with what was reported. A reader keeps nothing between callbacks, so a replay and another order are
the same question: does the same report have the same receipt, whenever it comes?
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

import pytest

from outrider.domain.receipts import Receipt, ReceiptEvent, fold
from outrider.gateways.sandbox_receipts import Post, ProviderReport
from outrider.limits.gateways import RECEIPT_BODY_MAX_BYTES, RECEIPTS_PER_CALLBACK_MAX
from outrider.ports.receipts import Callback, ReceiptReader, Refusal, RefusedFor, Verified

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
REFERENCE = "a7" * 32
RECIPIENT = "+447700900123"
GARBAGE: Sequence[bytes] = (
    b"", b"\x00", b"\xff\xfe\xfd", b"{", b"[]", b"null", b"0", b'"text"', b"{}", b'{"receipts": 5}',
    b'{"receipts": [{}]}', b'{"entry": [{"changes": [{}]}]}',
    b'{"type": "email.bounced", "data": 5}',
    b"a=b", b"MessageStatus=delivered", b"=&=&=", b"[" * 50_000, b"<xml/>", b"From nobody",
    b"Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n--x",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReceiptBench:
    """A target's reader and what only its provider can do: sign."""

    reader: ReceiptReader
    others: ReceiptReader
    """For another target of the same family, which has another secret."""
    post: Callable[[Sequence[ProviderReport], datetime], Post]
    """A genuine request about these, signed at this time."""
    post_body: Callable[[bytes, datetime], Post]
    """A genuine signature of any body."""
    signature_headers: frozenset[str]
    secrets: tuple[str, ...]
    """Must never appear again."""


def callback(post: Post, **changes: object) -> Callback:
    query = dict(parse_qsl(urlsplit(post.url).query))
    headers = {name.lower(): value for name, value in post.headers.items()}
    made = Callback("POST", post.url, query, headers, post.body)
    return replace(made, **changes)  # type: ignore[arg-type]


class ReceiptConformance:
    """One family. A subclass says what its provider can report."""

    gateway_type: ClassVar[str]
    events: ClassVar[frozenset[ReceiptEvent]]
    batches: ClassVar[bool] = False
    dated: ClassVar[bool] = True
    """Whether the signature covers a time; without one a replay must be harmless."""
    echoes_reference: ClassVar[bool] = True
    """In its statuses; incoming messages never carry it."""
    covers_body: ClassVar[bool] = True
    """Whether the signature covers the body; a password in a header does not."""
    signs_in_headers: ClassVar[bool] = True
    """A family that signs in the body tests its forgeries itself."""
    recipient: ClassVar[str] = RECIPIENT
    message_id: ClassVar[str] = "message-1"

    def report(
        self, event: ReceiptEvent = ReceiptEvent.DELIVERED, number: int = 1
    ) -> ProviderReport:
        return ProviderReport(
            f"report-{number}-{event}", event, f"{number:02x}{REFERENCE[2:]}",
            f"{self.message_id}-{number}", self.recipient, NOW,
        )  # fmt: skip

    def read(
        self, bench: ReceiptBench, *reports: ProviderReport, at: datetime = NOW, **changes: object
    ) -> object:
        made = callback(bench.post(reports or [self.report()], at), **changes)
        return self.check(bench, bench.reader.read(made, NOW))

    def check(self, bench: ReceiptBench, result: object) -> object:
        """What holds for every answer: no part of the secret, and nothing that helps a forger."""
        if isinstance(result, Refusal):
            assert result.detail
            for secret in bench.secrets:
                assert secret not in result.detail
            assert not any(word in result.detail for word in ("v1,", "sha256="))
        return result

    def believed(self, bench: ReceiptBench, *reports: ProviderReport) -> list[Receipt]:
        result = self.read(bench, *reports)
        assert isinstance(result, Verified), result
        return list(result.receipts)

    def test_a_genuine_report_says_what_happened_and_to_which_message(
        self, bench: ReceiptBench
    ) -> None:
        for event in sorted(self.events):
            (receipt,) = self.believed(bench, self.report(event))
            assert receipt.event is event
            assert receipt.receipt_id
            if event is ReceiptEvent.REPLIED:
                assert receipt.sender == self.recipient
                assert receipt.text == "STOP"
            elif self.echoes_reference:
                assert receipt.reference == self.report().reference
            else:
                assert receipt.provider_message_id == self.report().message_id

    def test_a_report_of_another_tenants_item_is_read_and_not_judged(
        self, bench: ReceiptBench
    ) -> None:
        """The matcher decides whose item a reference is."""
        strange = replace(self.report(), reference="f" * 64)
        (receipt,) = self.believed(bench, strange)
        assert receipt.reference in ("f" * 64, None)

    def test_a_forged_body_is_refused(self, bench: ReceiptBench) -> None:
        if not self.covers_body:
            pytest.skip("its provider does not sign what it reports")
        genuine = bench.post([self.report()], NOW)
        for place in {0, len(genuine.body) // 2, len(genuine.body) - 1}:
            changed = bytearray(genuine.body)
            changed[place] ^= 1
            result = bench.reader.read(callback(genuine, body=bytes(changed)), NOW)
            assert isinstance(self.check(bench, result), Refusal), (place, result)

    def test_a_forged_signature_is_refused(self, bench: ReceiptBench) -> None:
        if not self.signs_in_headers:
            pytest.skip("its provider signs in the body")
        genuine = callback(bench.post([self.report()], NOW))
        for text in ("x", "v1,", "v1,AAAA", "sha256=00", "v1,ä", "\udcff", "A" * 10_000):
            headers = {
                **genuine.headers,
                **dict.fromkeys(self._signing(bench, genuine.headers), text),
            }
            result = self.check(bench, bench.reader.read(replace(genuine, headers=headers), NOW))
            assert isinstance(result, Refusal), text
            assert result.why is RefusedFor.FORGED

    def test_another_targets_secret_is_not_accepted(self, bench: ReceiptBench) -> None:
        genuine = callback(bench.post([self.report()], NOW))
        assert isinstance(bench.reader.read(genuine, NOW), Verified)
        refused = self.check(bench, bench.others.read(genuine, NOW))
        assert isinstance(refused, Refusal)
        assert refused.why is RefusedFor.FORGED

    def test_an_unsigned_report_is_refused(self, bench: ReceiptBench) -> None:
        if not self.signs_in_headers:
            pytest.skip("its provider signs in the body")
        genuine = callback(bench.post([self.report()], NOW))
        for missing in [*({name} for name in bench.signature_headers), bench.signature_headers]:
            headers = {
                name: value for name, value in genuine.headers.items() if name not in missing
            }
            result = self.check(bench, bench.reader.read(replace(genuine, headers=headers), NOW))
            assert isinstance(result, Refusal), missing
            assert result.why is RefusedFor.UNSIGNED

    def test_a_stale_report_is_refused_where_it_is_dated(self, bench: ReceiptBench) -> None:
        for minutes in (-6, 6):
            result = self.read(bench, at=NOW + timedelta(minutes=minutes))
            if self.dated:
                assert isinstance(result, Refusal), minutes
                assert result.why is RefusedFor.STALE
            else:
                assert isinstance(result, Verified)
        for minutes in (-4, 4):
            assert isinstance(self.read(bench, at=NOW + timedelta(minutes=minutes)), Verified)

    def test_a_replayed_report_has_the_same_receipts(self, bench: ReceiptBench) -> None:
        genuine = callback(bench.post([self.report()], NOW))
        first, second = (bench.reader.read(genuine, NOW) for _ in range(2))
        assert first == second
        # A provider that retries signs again, at another time.
        again = self.read(bench, at=NOW + timedelta(minutes=2))
        assert again == first

    def test_different_reports_have_different_ids(self, bench: ReceiptBench) -> None:
        reports = [self.report(event, n) for event in sorted(self.events) for n in (1, 2, 3)]
        ids = [receipt.receipt_id for each in reports for receipt in self.believed(bench, each)]
        assert len(set(ids)) == len(reports)

    def test_any_order_adds_up_to_the_same_delivery(self, bench: ReceiptBench) -> None:
        reports = [self.report(event) for event in sorted(self.events)][:4]
        folded = set()
        for order in permutations(reports):
            receipts = [receipt for each in order for receipt in self.believed(bench, each)]
            folded.add(fold((receipt, NOW) for receipt in receipts))
        assert len(folded) == 1

    def test_a_truncated_report_is_refused(self, bench: ReceiptBench) -> None:
        genuine = bench.post([self.report()], NOW)
        for length in range(0, len(genuine.body), max(1, len(genuine.body) // 20)):
            result = bench.reader.read(callback(genuine, body=genuine.body[:length]), NOW)
            assert isinstance(self.check(bench, result), Refusal), length

    def test_a_batch_is_read_whole(self, bench: ReceiptBench) -> None:
        if not self.batches:
            pytest.skip("its provider reports one thing at a time")
        reports = [self.report(event, n) for n in range(1, 50) for event in sorted(self.events)]
        receipts = self.believed(bench, *reports)
        assert len(receipts) == len(reports)
        assert len({receipt.receipt_id for receipt in receipts}) == len(reports)

    def test_a_batch_beyond_the_limit_is_refused_whole(self, bench: ReceiptBench) -> None:
        if not self.batches:
            pytest.skip("its provider reports one thing at a time")
        report = self.report()
        result = self.read(bench, *[report] * (RECEIPTS_PER_CALLBACK_MAX + 1))
        assert isinstance(result, Refusal)
        assert result.why is RefusedFor.MALFORMED

    def test_an_oversized_body_is_refused_unread(self, bench: ReceiptBench) -> None:
        post = bench.post_body(b"a" * (RECEIPT_BODY_MAX_BYTES + 1), NOW)
        result = self.check(bench, bench.reader.read(callback(post), NOW))
        assert isinstance(result, Refusal)
        assert result.why is RefusedFor.MALFORMED

    def test_signed_garbage_is_never_believed_and_never_raises(self, bench: ReceiptBench) -> None:
        noise = random.Random(19)
        bodies = [*GARBAGE, *(noise.randbytes(noise.randrange(1, 400)) for _ in range(100))]
        genuine = bench.post([self.report()], NOW).body
        for _ in range(100):
            # Also of a real one, with holes in it.
            start = noise.randrange(len(genuine))
            bodies.append(genuine[:start] + genuine[start + noise.randrange(1, 40) :])
        for body in bodies:
            result = bench.reader.read(callback(bench.post_body(body, NOW)), NOW)
            assert isinstance(self.check(bench, result), Refusal | Verified), body
        for body in GARBAGE:
            result = bench.reader.read(callback(bench.post_body(body, NOW)), NOW)
            assert isinstance(result, Refusal) or not result.receipts, body  # type: ignore[union-attr]

    def test_a_receipt_that_is_not_posted_is_refused(self, bench: ReceiptBench) -> None:
        for method in ("GET", "PUT", "HEAD"):
            assert isinstance(self.read(bench, method=method), Refusal)

    def test_strange_words_of_a_provider_are_kept_on_one_line(self, bench: ReceiptBench) -> None:
        if ReceiptEvent.REPLIED not in self.events:
            pytest.skip("nobody can answer")
        strange = replace(self.report(ReceiptEvent.REPLIED), text="a\x00b\u2028" + "x" * 20_000)
        (receipt,) = self.believed(bench, strange)
        assert receipt.text is not None
        assert "\x00" not in receipt.text
        assert len(receipt.text) < 5_000

    def _signing(self, bench: ReceiptBench, headers: Mapping[str, str]) -> list[str]:
        """The header that holds the signature itself."""
        known = [name for name in headers if name in bench.signature_headers]
        return [name for name in known if "signature" in name] or known

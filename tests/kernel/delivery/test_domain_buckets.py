"""Domain buckets: what may begin without asking, and when what was set aside comes back."""

from datetime import UTC, datetime, timedelta

from outrider.domain.domain_limits import UNLIMITED, DomainLimits
from outrider.domain.targets import PROBE_LOOK_SECONDS
from outrider.kernel.delivery.domain_buckets import Bucket
from outrider.kernel.transactions.domain_doors import Drawn
from outrider.limits.delivery import LONGEST_TURN_SECONDS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def learned(bucket: Bucket, found: Drawn, calls: int = 10) -> Bucket:
    bucket.learn(calls, found, NOW, NOW + SECOND, NOW + SECOND)
    return bucket


def test_granted_calls_are_used_up_and_expire() -> None:
    bucket = learned(Bucket(UNLIMITED, most_at_once=8), Drawn(3, None, 0))
    assert bucket.free(NOW) == 3
    bucket.take()
    assert bucket.free(NOW) == 2
    assert bucket.free(NOW + SECOND) == 0
    bucket.put_back(1)
    assert (bucket.free(NOW), bucket.in_use) == (3, 0)


def test_no_more_calls_are_in_flight_than_its_share() -> None:
    bucket = learned(Bucket(DomainLimits(connections=4), 8), Drawn(10, None, 0, share=2))
    bucket.take()
    bucket.take()
    assert bucket.free(NOW) == 0
    assert not bucket.may_ask(NOW), "only a call that ends changes that"
    assert bucket.may_ask(NOW + SECOND), "the share is another by now"


def test_without_a_share_it_asks_again_soon() -> None:
    bucket = learned(Bucket(DomainLimits(connections=1), 8), Drawn(10, None, 0, share=0))
    assert not bucket.may_ask(NOW)
    assert bucket.may_ask(NOW + SECOND / 2)


def test_a_deferral_withdraws_what_was_granted_and_is_reported_once_per_epoch() -> None:
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(10, None, 5))
    bucket.close(5, 30.0, "later")
    bucket.close(5, None, "later")
    assert (bucket.epoch, bucket.free(NOW)) == (6, 0)
    assert [(each.epoch, each.throttled) for each in bucket.unreported] == [(5, 1), (5, 1)]
    assert bucket.waits_for == "domain_throttled"


def test_an_answer_from_before_it_closed_opens_nothing() -> None:
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(10, None, 5))
    bucket.close(5, None, None)
    bucket.unreported.clear()
    bucket.answered(5)
    assert not bucket.unreported
    bucket.answered(6)
    assert [each.answered for each in bucket.unreported] == [1]


def test_a_probe_that_nobody_used_is_given_back() -> None:
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(1, None, 5, is_probe=True, is_open=False))
    assert bucket.wait_until == NOW + timedelta(seconds=PROBE_LOOK_SECONDS)
    bucket.return_probe()
    assert [each.unused for each in bucket.unreported] == [1]
    assert bucket.free(NOW) == 0


def test_a_probe_whose_call_did_not_begin_is_given_back() -> None:
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(1, None, 5, is_probe=True, is_open=False))
    bucket.take()
    bucket.not_begun(5)
    assert [each.unused for each in bucket.unreported] == [1]
    assert bucket.may_ask(NOW)


def test_what_is_set_aside_comes_back_a_turn_at_a_time_and_not_too_late() -> None:
    bucket = Bucket(DomainLimits(rate_per_second=5), 8)
    assert bucket.messages_per_turn == 5
    assert [bucket.turn(NOW) for _ in range(3)] == [NOW, NOW + SECOND, NOW + 2 * SECOND]
    turns = [bucket.turn(NOW) for _ in range(100)]
    assert turns[-1] == NOW + timedelta(seconds=LONGEST_TURN_SECONDS)


def test_turns_begin_when_the_domain_opens() -> None:
    opens = NOW + 30 * SECOND
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(0, opens, 5, is_open=False))
    assert bucket.turn(NOW) == opens
    assert bucket.turn(NOW) > opens


def test_only_a_bucket_without_anything_to_remember_is_idle() -> None:
    bucket = learned(Bucket(UNLIMITED, 8), Drawn(10, None, 0))
    assert not bucket.is_idle(NOW)
    assert bucket.is_idle(NOW + SECOND)
    bucket.take()
    assert not bucket.is_idle(NOW + SECOND)

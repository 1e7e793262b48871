"""The call meter: counts by outcome, and durations in buckets."""

from outrider.domain.call_results import Progress
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.kernel.delivery.call_meter import CALL_SECONDS, CallMeter

SENT = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
QUEUED = Verdict(ItemStatus.QUEUED, IntentStatus.PENDING, Progress.ANSWERED)
FAILED = Verdict(ItemStatus.FAILED, IntentStatus.REJECTED, Progress.ANSWERED)


def test_each_way_to_end_has_its_own_count() -> None:
    meter = CallMeter()
    for verdict in (
        SENT,
        SENT,
        FAILED,
        QUEUED,
        QUEUED._replace(in_doubt=True),
        QUEUED._replace(given_back=True),
    ):
        meter.note("sms", "sms.main", verdict, 0.01)
    assert {key[2]: count for key, count in meter.messages.items()} == {
        "sent": 2, "failed": 1, "retried": 1, "in_doubt": 1, "given_back": 1,
    }  # fmt: skip


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    meter = CallMeter()
    for seconds in (CALL_SECONDS[0], CALL_SECONDS[0] + 0.001, 1_000):
        meter.note("sms", "sms.main", SENT, seconds)
    taken = meter.durations["sms.main"]
    assert (taken.buckets[0], taken.buckets[1], taken.buckets[-1]) == (1, 1, 1)
    assert sum(taken.buckets) == 3

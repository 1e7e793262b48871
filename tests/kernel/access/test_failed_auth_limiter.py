"""Who fails too often waits; nobody else does, and nobody is remembered without end."""

from datetime import UTC, datetime, timedelta

import pytest

from outrider.kernel.access import failed_auth_limiter
from outrider.kernel.access.failed_auth_limiter import FailedAuthLimiter, network_of
from outrider.limits.access import (
    FAILED_AUTH_ADDRESS_MAX_CHARACTERS,
    FAILED_AUTH_BURST,
    FAILED_AUTH_REFILL_SECONDS,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MALLORY, ALICE = "203.0.113.7", "203.0.113.8"


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def exhausted(address: str = MALLORY) -> FailedAuthLimiter:
    limiter = FailedAuthLimiter()
    for _ in range(FAILED_AUTH_BURST):
        assert limiter.seconds_to_wait(address, NOON) is None
        limiter.note_failure(address, NOON)
    return limiter


def test_a_client_that_failed_too_often_waits_for_its_next_try() -> None:
    limiter = exhausted()
    assert limiter.seconds_to_wait(MALLORY, NOON) == FAILED_AUTH_REFILL_SECONDS
    half = FAILED_AUTH_REFILL_SECONDS / 2
    assert limiter.seconds_to_wait(MALLORY, at(half)) == pytest.approx(half)
    assert limiter.seconds_to_wait(MALLORY, at(FAILED_AUTH_REFILL_SECONDS)) is None


def test_after_the_wait_there_is_one_try_and_not_all_of_them() -> None:
    limiter = exhausted()
    later = at(FAILED_AUTH_REFILL_SECONDS)
    limiter.note_failure(MALLORY, later)
    assert limiter.seconds_to_wait(MALLORY, later) == pytest.approx(FAILED_AUTH_REFILL_SECONDS)


def test_failures_while_waiting_do_not_make_the_wait_longer() -> None:
    limiter = exhausted()
    for _ in range(100):
        limiter.note_failure(MALLORY, NOON)
    assert limiter.seconds_to_wait(MALLORY, NOON) == FAILED_AUTH_REFILL_SECONDS


def test_a_long_rest_gives_no_more_tries_than_at_first() -> None:
    limiter = exhausted()
    later = at(86_400)
    for _ in range(FAILED_AUTH_BURST):
        limiter.note_failure(MALLORY, later)
    assert limiter.seconds_to_wait(MALLORY, later) is not None


def test_failures_of_other_workspaces_are_not_shown() -> None:
    limiter = exhausted()
    assert limiter.seconds_to_wait(ALICE, NOON) is None


def test_asking_is_not_failing() -> None:
    limiter = FailedAuthLimiter()
    for _ in range(10 * FAILED_AUTH_BURST):
        assert limiter.seconds_to_wait(ALICE, NOON) is None
    assert len(limiter) == 0


def test_a_clock_set_back_neither_frees_nor_breaks_a_lock() -> None:
    limiter = exhausted()
    assert limiter.seconds_to_wait(MALLORY, at(-3_600)) == FAILED_AUTH_REFILL_SECONDS


def test_all_addresses_of_an_ipv6_network_are_one() -> None:
    limiter = exhausted("2001:db8:1:2::1")
    assert limiter.seconds_to_wait("2001:db8:1:2:ffff:ffff:ffff:ffff", NOON) is not None
    assert limiter.seconds_to_wait("2001:db8:1:3::1", NOON) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
        ("", ""),
        ("x" * 1_000, "x" * FAILED_AUTH_ADDRESS_MAX_CHARACTERS),
    ],
)
def test_an_address_is_known_by_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_only_so_many_addresses_are_remembered_and_the_oldest_failure_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failed_auth_limiter, "FAILED_AUTH_ADDRESSES", 3)
    limiter = exhausted()
    for number in range(2):
        limiter.note_failure(f"192.0.2.{number}", NOON)
    limiter.note_failure(MALLORY, NOON)
    limiter.note_failure("192.0.2.9", NOON)
    assert len(limiter) == 3
    assert limiter.seconds_to_wait(MALLORY, NOON) is not None

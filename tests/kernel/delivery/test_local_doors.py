"""What a process knows of a door: believed for a while, and given up at the first trouble."""

from dataclasses import replace
from datetime import timedelta

from outrider.domain.targets import Door, DoorState
from outrider.kernel.delivery.local_doors import LocalDoor, Passes
from outrider.testing.store_suite.workshop import NOON

TRUST_SECONDS = 5.0
OPEN = Door(tokens=1.0, refilled_at=NOON)
CLOSED = replace(
    OPEN, state=DoorState.DOWN, since=NOON, opens_at=NOON + timedelta(seconds=15), epoch=3
)


def learned(door: Door | None) -> LocalDoor:
    local = LocalDoor()
    local.learn(door, NOON, TRUST_SECONDS)
    return local


def test_a_door_of_which_nothing_is_known_is_not_trusted() -> None:
    assert not LocalDoor().is_trusted(NOON)


def test_a_door_without_trouble_is_trusted_for_a_while() -> None:
    for door in (None, OPEN):
        local = learned(door)
        assert local.is_trusted(NOON + timedelta(seconds=TRUST_SECONDS - 1))
        assert not local.is_trusted(NOON + timedelta(seconds=TRUST_SECONDS))


def test_an_open_door_with_failures_is_not_trusted() -> None:
    local = learned(replace(OPEN, failures=1))
    assert not local.is_trusted(NOON)
    assert local.closed_until is None


def test_a_closed_door_says_until_when_and_forgets_it_when_it_opens() -> None:
    local = learned(CLOSED)
    assert (local.epoch, local.closed_until) == (3, CLOSED.opens_at)
    assert not local.is_trusted(NOON)
    local.learn(replace(OPEN, epoch=3), NOON, TRUST_SECONDS)
    assert local.closed_until is None
    assert local.is_trusted(NOON)


def test_an_epoch_never_goes_back_to_what_the_store_knew_before() -> None:
    local = learned(CLOSED)
    local.shut()
    local.learn(CLOSED, NOON, TRUST_SECONDS)
    assert local.epoch == 4


def test_permission_to_start_ends_when_either_door_closes() -> None:
    for shut_the_shared in (True, False):
        shared, own = learned(None), learned(None)
        passes = Passes(5, shared, own, shared.epoch, own.epoch)
        assert passes.are_valid
        (shared if shut_the_shared else own).shut()
        assert not passes.are_valid


def test_a_door_that_was_shut_here_is_not_trusted_until_the_store_was_asked() -> None:
    local = learned(None)
    local.failures = 7
    local.shut()
    assert not local.is_trusted(NOON)
    assert local.failures == 0

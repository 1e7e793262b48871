"""Identifiers: UUIDv7 texts that are what they say, and keys that are the contracts' formulas."""

import hashlib
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import (
    RANDOM_BYTES_PER_UUID,
    TICKS_PER_MS,
    AssetId,
    JobId,
    RecipientId,
    RunId,
    idempotency_key,
    idempotency_keys,
    item_keys,
    skipped_key,
    uuid7_batch,
)
from outrider.domain.states import Channel
from outrider.system import SystemIds

ticks = st.integers(min_value=0, max_value=2**60 - 1_000)
noise = st.binary(min_size=RANDOM_BYTES_PER_UUID, max_size=RANDOM_BYTES_PER_UUID)
fields = st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]), max_size=20)


@given(ticks, noise)
def test_an_id_is_a_uuid_of_version_7_and_the_rfc_variant(tick: int, random: bytes) -> None:
    (text,) = uuid7_batch(tick, random)
    made = uuid.UUID(text)
    assert str(made) == text
    assert made.version == 7
    assert made.variant == uuid.RFC_4122


@given(ticks, noise)
def test_an_id_starts_with_its_millisecond(tick: int, random: bytes) -> None:
    (text,) = uuid7_batch(tick, random)
    assert uuid.UUID(text).int >> 80 == tick // TICKS_PER_MS


@given(ticks, ticks, noise, noise)
def test_ids_sort_by_the_time_they_were_made(
    one_tick: int, other_tick: int, one_noise: bytes, other_noise: bytes
) -> None:
    (one,), (other,) = uuid7_batch(one_tick, one_noise), uuid7_batch(other_tick, other_noise)
    assert one_tick == other_tick or (one < other) == (one_tick < other_tick)


@given(ticks, noise, noise)
def test_an_id_keeps_62_random_bits(tick: int, one_noise: bytes, other_noise: bytes) -> None:
    (one,), (other,) = uuid7_batch(tick, one_noise), uuid7_batch(tick, other_noise)
    kept = [int.from_bytes(each) & (2**62 - 1) for each in (one_noise, other_noise)]
    assert (one == other) == (kept[0] == kept[1])


@given(ticks, st.integers(min_value=0, max_value=300))
def test_a_batch_has_one_id_for_every_eight_bytes_in_rising_order(tick: int, count: int) -> None:
    made = list(uuid7_batch(tick, bytes(RANDOM_BYTES_PER_UUID * count)))
    assert len(made) == len(set(made)) == count
    assert made == sorted(made)


def test_the_same_time_and_noise_give_the_same_id() -> None:
    given_noise = bytes(range(RANDOM_BYTES_PER_UUID))
    assert list(uuid7_batch(1, given_noise)) == list(uuid7_batch(1, given_noise))


def test_ids_of_one_process_rise_even_where_its_clock_steps_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = SystemIds()
    before = [*ids.batch(5_000), ids.new()]
    earlier_ns = time.time_ns() - 7_200 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: earlier_ns)
    made = [*before, ids.new(), *ids.batch(3)]
    assert made == sorted(made)
    assert len(set(made)) == 5_005


@given(st.lists(fields, min_size=1, max_size=6))
def test_a_key_is_the_sha256_of_its_fields_joined_by_bars(given_fields: list[str]) -> None:
    joined = "|".join(given_fields)
    expected = hashlib.sha256(joined.encode("utf-8")).hexdigest()
    assert idempotency_key(*given_fields) == expected
    assert expected == expected.lower()


def test_keys_are_compared_exactly() -> None:
    assert idempotency_key("run", "lead", "asset", "2026-01-01T00:00:00Z") == (
        hashlib.sha256(b"run|lead|asset|2026-01-01T00:00:00Z").hexdigest()
    )


@given(st.lists(fields, min_size=1, max_size=5), st.integers(min_value=0), fields, fields)
def test_a_field_that_holds_a_bar_is_refused(
    given_fields: list[str], place: int, before: str, after: str
) -> None:
    forged = list(given_fields)
    forged[place % len(forged)] = f"{before}|{after}"
    with pytest.raises(InvalidInput, match="must not contain"):
        idempotency_key(*forged)


@given(st.lists(fields, min_size=1, max_size=5), st.lists(fields, min_size=1, max_size=5))
def test_different_fields_never_share_a_key_by_shifting(one: list[str], other: list[str]) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


@given(fields, st.lists(fields, max_size=5), st.lists(fields, max_size=3))
def test_many_keys_at_once_are_the_keys_of_each(
    first: str, seconds: list[str], rest: list[str]
) -> None:
    each = [idempotency_key(first, second, *rest) for second in seconds]
    assert idempotency_keys(first, seconds, *rest) == each


@pytest.mark.parametrize(
    ("first", "second", "last"), [("a|", "b", "c"), ("a", "|b", "c"), ("a", "b", "|")]
)
def test_many_keys_at_once_refuse_a_field_that_could_forge_another_key(
    first: str, second: str, last: str
) -> None:
    with pytest.raises(InvalidInput, match="must not contain"):
        idempotency_keys(first, [second], last)


@pytest.mark.parametrize(
    ("channel", "script_version", "fields"),
    [
        (Channel.EMAIL, None, "run|lead-1|asset-1|then"),
        (Channel.SMS, None, "run|lead-1|asset-1|then"),
        (Channel.PUSH, None, "run|lead-1|asset-1|then"),
        (Channel.WHATSAPP, None, "run|lead-1|asset-1|then"),
        (Channel.VOICE, "v3", "run|lead-1|v3|then"),
        (Channel.VOICE, None, "run|lead-1|asset-1|then"),
        (Channel.SOCIAL, None, "run|asset-1|mastodon.main|then"),
    ],
)
def test_an_items_key_follows_its_channels_formula_exactly(
    channel: Channel, script_version: str | None, fields: str
) -> None:
    """B2: run, post, network and time for a post; its version for a script."""
    run, asset = RunId("run"), AssetId("asset-1")
    (key,) = item_keys(channel, run, ["lead-1"], asset, "mastodon.main", script_version, "then")
    assert key == hashlib.sha256(fields.encode()).hexdigest()


def test_a_skipped_items_key_is_its_own_and_the_same_each_time() -> None:
    """B2: the database has room for one row under a key, and the skipped row is another one."""
    held = idempotency_key("run", "lead-1", "v3", "then")
    own = skipped_key(held, JobId("job"), RecipientId("lead-1"))
    assert own == skipped_key(held, JobId("job"), RecipientId("lead-1"))
    others = {
        skipped_key(held, JobId("job"), RecipientId("lead-2")),
        skipped_key(held, JobId("another job"), RecipientId("lead-1")),
        held,
    }
    assert own not in others

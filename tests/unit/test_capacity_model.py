"""The capacity model with round figures: what binds, how a day goes, what a random key costs."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

# The benchmark's scripts are no package: they find one another beside themselves.
sys.path.append(str(Path(__file__).parents[2] / "bench"))

from capacity_model import (
    BURST_MINUTE,
    DAY_MINUTES,
    PAGE_BYTES,
    Costs,
    Layout,
    bounds,
    business_day,
    calls_needed,
    database_cores_needed,
    disk_bytes,
    even_day,
    key_index_gigabytes,
    log_bytes,
    pages_a_message,
    peak_rate,
    random_pages,
    reads_a_message,
    simulate,
    worker_rate,
    workers_needed,
)

PER_DAY = 86_400_000.0
"""A thousand a second."""

COSTS = Costs(
    worker_microseconds=200,
    render_microseconds=50,
    database_microseconds=100,
    log_bytes=1_000,
    rest_bytes=2_000,
    key_index_bytes=100,
    page_image_bytes=6_000,
)
LAYOUT = Layout("one", 1, worker_cores=2, planned_share=0.5, provider_seconds=0.1)


def by_name(layout: Layout, per_day: float = PER_DAY) -> dict[str, float]:
    return {bound.of: bound.per_second for bound in bounds(COSTS, layout, per_day)}


def test_a_worker_is_limited_by_its_own_core_if_its_renderer_has_another() -> None:
    assert worker_rate(COSTS, LAYOUT) == pytest.approx(0.5 / 200e-6)


def test_on_a_single_core_a_worker_shares_it_with_its_renderer() -> None:
    assert worker_rate(COSTS, replace(LAYOUT, worker_cores=1)) == pytest.approx(0.5 / 250e-6)


def test_a_slower_engine_takes_from_workers_and_not_from_the_database() -> None:
    local, slower = by_name(LAYOUT), by_name(replace(LAYOUT, engine_ratio=0.76))
    assert slower["workers' processors"] == pytest.approx(0.76 * local["workers' processors"])
    assert slower["Postgres's processors"] == local["Postgres's processors"]
    assert slower["disk writes"] == local["disk writes"]


def test_the_scarcest_resource_comes_first() -> None:
    found = bounds(COSTS, replace(LAYOUT, provider_seconds=10.0), PER_DAY)
    assert found[0].of == "calls at once"
    assert found[0].per_second == pytest.approx(256 * 0.5 / 10)
    assert [bound.per_second for bound in found] == sorted(bound.per_second for bound in found)


def test_twice_the_workers_have_twice_the_calls_and_processors_but_the_same_database() -> None:
    one, two = by_name(LAYOUT), by_name(replace(LAYOUT, workers=2))
    assert two["calls at once"] == 2 * one["calls at once"]
    assert two["workers' processors"] == 2 * one["workers' processors"]
    assert two["Postgres's processors"] == one["Postgres's processors"]


def test_a_page_is_written_whole_once_however_many_keys_land_on_it() -> None:
    assert pages_a_message(pages=10, messages=1_000_000) == pytest.approx(10 / 1_000_000)


def test_among_very_many_pages_every_key_meets_one_of_its_own() -> None:
    assert pages_a_message(pages=1e9, messages=1_000) == pytest.approx(1.0, rel=1e-5)


def test_as_many_keys_as_pages_meet_two_thirds_of_them() -> None:
    assert pages_a_message(pages=5_000, messages=5_000) == pytest.approx(1 - 1 / math.e)


@pytest.mark.parametrize(("pages", "messages"), [(0, 10), (10, 0)])
def test_nothing_is_no_page(pages: float, messages: float) -> None:
    assert pages_a_message(pages, messages) == 0.0


def test_log_and_disk_take_the_random_pages_on_top() -> None:
    pages = random_pages(COSTS, LAYOUT, PER_DAY)
    assert 0.9 < pages <= 1.0
    assert log_bytes(COSTS, LAYOUT, PER_DAY) == pytest.approx(1_000 + 6_000 * pages)
    assert disk_bytes(COSTS, LAYOUT, PER_DAY) == pytest.approx(
        log_bytes(COSTS, LAYOUT, PER_DAY) + 2_000 + 100 + PAGE_BYTES * pages
    )


def test_an_empty_ledger_needs_no_random_reads() -> None:
    assert random_pages(COSTS, replace(LAYOUT, days_kept=0), PER_DAY) == 0.0
    assert log_bytes(COSTS, replace(LAYOUT, days_kept=0), PER_DAY) == 1_000


def test_keys_that_land_among_a_days_rows_need_a_days_memory_whatever_is_kept() -> None:
    layout = replace(LAYOUT, key_days=1, days_kept=365)
    assert key_index_gigabytes(COSTS, layout, PER_DAY) == pytest.approx(8.64)
    assert key_index_gigabytes(COSTS, replace(layout, key_days=None), PER_DAY) == pytest.approx(
        365 * 8.64
    )


def test_several_databases_share_the_index() -> None:
    four = replace(LAYOUT, databases=4, days_kept=10)
    assert key_index_gigabytes(COSTS, four, PER_DAY) == pytest.approx(86.4 / 4)


def test_an_index_that_fits_into_memory_is_never_read_from_the_disk() -> None:
    layout = replace(LAYOUT, days_kept=1)
    assert reads_a_message(COSTS, layout, PER_DAY) == 0.0
    assert by_name(layout)["disk reads"] == math.inf


def test_the_part_of_an_index_that_does_not_fit_is_read_from_the_disk() -> None:
    layout = replace(LAYOUT, days_kept=10, database_memory_gigabytes=86.4)
    assert reads_a_message(COSTS, layout, PER_DAY) == pytest.approx(0.5)
    assert by_name(layout)["disk reads"] == pytest.approx(10_000 * 0.5 / 0.5)


@pytest.mark.parametrize("day", [even_day, business_day])
def test_a_day_has_all_its_messages(day: object) -> None:
    assert callable(day)
    arrivals = day(PER_DAY)
    assert len(arrivals) == DAY_MINUTES
    assert sum(arrivals) == pytest.approx(PER_DAY)


def test_a_business_days_busiest_hour_has_twelve_per_cent_of_what_is_spread() -> None:
    arrivals = business_day(PER_DAY)
    hours = [
        sum(arrivals[minute] for minute in range(first, first + 60) if minute != BURST_MINUTE)
        for first in range(0, DAY_MINUTES, 60)
    ]
    assert max(hours) == pytest.approx(0.12 * 0.9 * PER_DAY)
    assert max(hours) == pytest.approx(3_600 * peak_rate(PER_DAY))


def test_nothing_waits_where_there_is_room() -> None:
    day = simulate(even_day(PER_DAY), 1_001)
    assert day.worst_backlog == 0.0
    assert day.worst_delay_seconds == 0.0


def test_with_too_little_capacity_messages_pile_up_until_the_end_of_the_day() -> None:
    day = simulate(even_day(PER_DAY), 900)
    assert not day.keeps_up
    assert day.worst_backlog == day.backlog[-1] == pytest.approx(100 * 86_400)
    assert day.worst_delay_seconds == pytest.approx(100 * 86_400 / 900)


def test_a_burst_is_worked_off_at_what_is_left_of_the_capacity() -> None:
    day = simulate([600_000.0] + [0.0] * 20, 1_000)
    assert day.backlog[0] == 540_000
    assert day.delay_seconds[0] == 540
    assert day.backlog[9] == 0.0
    assert day.keeps_up


def test_concurrent_calls_are_rate_times_latency() -> None:
    assert calls_needed(1_000, 0.2) == 200


def test_workers_are_counted_by_calls_or_by_processors_whichever_is_more() -> None:
    assert workers_needed(COSTS, replace(LAYOUT, provider_seconds=1.0), 1_000) == 8
    assert workers_needed(COSTS, replace(LAYOUT, provider_seconds=0.001), 10_000) == 4
    assert workers_needed(COSTS, LAYOUT, 1) == 1


def test_database_cores_leave_the_share_that_is_not_planned_for() -> None:
    assert database_cores_needed(COSTS, LAYOUT, 10_000) == 2

"""From measurements to what is planned with, and the page's small forms."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

# The benchmark's scripts are no package: they find one another beside themselves.
sys.path.append(str(Path(__file__).parents[2] / "bench"))

from capacity_forms import about, flowed, rounded, short, wait
from capacity_model import Day, pages_a_message
from capacity_plan import CHOICES, cost, costs_of
from systems.outrider_meter import growth, whole_pages

ROOT = Path(__file__).parents[2]
STATISTICS = """\
WAL statistics between 0/1 and 0/2:
Type                                           N      (%)          Record size      (%)
----                                           -      ---          -----------      ---
XLOG                                           2 (  0.01)                  228 (  0.01) \
                   0 (  0.00)                  228 (  0.00)
Btree                                      30123 ( 50.10)              2120000 ( 40.00) \
            87160000 (100.00)             89280000 ( 90.00)
Heap                                       30000 ( 49.89)              3000000 ( 59.99) \
                8192 (  0.01)              3008192 ( 10.00)
                                        --------                      --------
Total                                      60125                       5120228 [5.55%]
"""


@pytest.fixture
def found() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "bench/capacity.json").read_text())
    return document


def test_whole_pages_are_read_from_the_table_by_kind_of_page() -> None:
    assert whole_pages(STATISTICS) == {"XLOG": 0, "Btree": 87_160_000, "Heap": 8_192}


def test_growth_is_of_one_message_and_leaves_out_what_hardly_grew() -> None:
    before, after = {"a": 100, "b": 0}, {"a": 10_100, "b": 5, "c": 2_000}
    assert growth(before, after, 10) == {"a": 1_000.0, "c": 200.0}


def test_a_cost_is_the_median_of_its_rounds() -> None:
    rounds = [{"deliver": {"logBytes": size}} for size in (3.0, 1.0, 2.0)]
    assert cost({"parts": {"campaign": rounds}}, "campaign", "deliver", "logBytes") == 2.0


def test_a_full_ledger_costs_postgres_no_less_than_an_empty_one(found: dict[str, Any]) -> None:
    over_http = sum(
        cost(found, "http", phase, "postgresCpuMicroseconds") for phase in ("store", "deliver")
    )
    assert costs_of(found).database_microseconds >= over_http


def test_without_a_full_ledger_a_page_counts_whole(found: dict[str, Any]) -> None:
    parts = {name: part for name, part in found["parts"].items() if not name.startswith("full")}
    assert costs_of({**found, "parts": parts}).page_image_bytes == 8_192


def test_the_measurements_confirm_the_model_of_random_pages(found: dict[str, Any]) -> None:
    """A page of an index that is filled at random is some 70 % full: so large is its image."""
    part = found["parts"]["full"][0]
    expected = pages_a_message(part["keyIndexBytes"] / 8_192, part["messages"])
    image = part["deliver"]["indexWholePageBytes"] / expected
    assert 0.5 * 8_192 < image < 8_192


def test_every_layout_has_its_own_name() -> None:
    assert len({layout.name for layout in CHOICES}) == len(CHOICES)


@pytest.mark.parametrize(
    ("seconds", "keeps_up", "words"),
    [(0.0, True, "none"), (45.0, True, "45 s"), (600.0, True, "10 min"),
     (1.0, False, "longer every day")],
)  # fmt: skip
def test_a_wait_is_described_in_words(seconds: float, keeps_up: bool, words: str) -> None:
    assert wait(Day((0.0,), (seconds,), keeps_up)) == words


def test_figures_are_short() -> None:
    assert [short(count) for count in (1_500, 2_000_000, 3_000_000_000)] == [
        "1,500", "2 million", "3 billion",
    ]  # fmt: skip
    assert [rounded(figure) for figure in (0.51, 9.94, 1_234.5)] == ["0.5", "9.9", "1,234"]
    assert about(18_382.4) == "18,400"


def test_paragraphs_flow_and_tables_stay() -> None:
    text = "# A\n\none\ntwo\n\n| a\n| b\n\n1. three\n   four\n2. five"
    assert flowed(text) == "# A\n\none two\n\n| a\n| b\n\n1. three four\n2. five"

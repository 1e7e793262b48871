"""The speed guard can fail, and is not far below what was measured."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
WITHIN = 0.55
"""Of the ratio that the results on the page have: less would let half the speed go unnoticed."""


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(sys, "argv", ["guard.py"])
    return runpy.run_path(str(BENCH / "guard.py"))


@pytest.mark.parametrize(("slower", "exit_code"), [(1.05, 0), (0.95, 1)])
def test_the_guard_fails_below_its_ratio_and_only_there(
    guard: dict[str, object], slower: float, exit_code: int
) -> None:
    main: Any = guard["main"]
    least = guard["LEAST_RATIO"]
    assert isinstance(least, float)
    rates = {guard["OUTRIDER"]: 10_000 * least * slower, "limit-postgres": 10_000.0}
    main.__globals__["best_rates"] = lambda _names: rates
    assert main() == exit_code


def test_the_guard_asks_for_most_of_what_was_measured(guard: dict[str, object]) -> None:
    best: dict[str, float] = {}
    for run in json.loads((BENCH / "results.json").read_text())["runs"]:
        if run["figure"] == "end_to_end":
            best[run["system"]] = max(best.get(run["system"], 0.0), run["value"])
    measured = best["outrider-postgres"] / best["limit-postgres"]
    least = guard["LEAST_RATIO"]
    assert isinstance(least, float)
    assert measured * WITHIN <= least < measured


def test_one_slow_minute_is_measured_again(guard: dict[str, object]) -> None:
    main: Any = guard["main"]
    measured = iter([1_000.0, 9_000.0])
    main.__globals__["best_rates"] = lambda _names: {
        guard["OUTRIDER"]: next(measured),
        "limit-postgres": 10_000.0,
    }
    assert main() == 0

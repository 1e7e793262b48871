"""U3: what the command line calls a stop, what is scheduled, and phases that send nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outrider.cli.console import accounting_of
from outrider.cli.phase_words import (
    campaign_word,
    launch_word,
    next_control,
    run_word,
    state_word,
    success_word,
    why,
)

NOW = datetime(2026, 11, 17, tzinfo=UTC)
AHEAD = "2097-01-01T09:00:00Z"


def phase(state: str, **facts: Any) -> dict[str, Any]:
    plain = {"reason": None, "runStatus": None, "scheduledFor": None, "waitsFor": None}
    return {"state": state, **plain, **facts}


@pytest.mark.parametrize(
    ("found", "word", "reason"),
    [
        (phase("failed", reason="stopped"), "stopped", None),
        (phase("failed", reason="run_failed"), "failed", "run_failed"),
        (
            phase("in_progress", runStatus="queued", scheduledFor=AHEAD),
            "scheduled",
            "for 2097-01-01 09:00 UTC",
        ),
        (phase("in_progress", runStatus="running", scheduledFor=AHEAD), "in_progress", None),
        (phase("paused", runStatus="queued", scheduledFor=AHEAD), "paused", None),
        (
            phase("in_progress", runStatus="queued", waitsFor="room"),
            "in_progress",
            "waiting for room",
        ),
    ],
)
def test_a_phase_is_said_as_people_mean_it(
    found: dict[str, Any], word: str, reason: str | None
) -> None:
    assert (state_word(found, NOW), why(found)) == (word, reason)


def test_what_is_due_is_no_longer_scheduled() -> None:
    due = phase("in_progress", runStatus="queued", scheduledFor="2026-11-16T00:00:00Z")
    assert state_word(due, NOW) == "in_progress"


def test_a_campaign_says_the_word_of_the_phase_that_its_state_comes_from() -> None:
    stopped, failed = phase("failed", reason="stopped"), phase("failed", reason="run_failed")
    done = phase("completed")
    assert campaign_word({"state": "failed", "phases": [done, stopped]}) == "stopped"
    assert campaign_word({"state": "failed", "phases": [stopped, failed]}) == "failed"
    assert campaign_word({"state": "ready", "phases": [done]}) == "ready"


def test_what_comes_next_is_the_first_phase_that_is_not_completed() -> None:
    """After a stop it used to be the phase behind, which cannot begin before."""

    def told(control: str | None = None, **states: str) -> tuple[str, str] | None:
        phases = {name: phase(state) for name, state in states.items()}
        return next_control({"controlPhase": control, "phaseOrder": list(states), "phases": phases})

    assert told(launch="failed", report="not_started") == ("retry", "launch")
    assert told(launch="completed", report="not_started") == ("start", "report")
    assert told("launch", launch="in_progress", report="not_started") is None
    assert told(launch="completed") is None


def test_the_list_says_the_launchs_own_word() -> None:
    stopped = {"phase": "launch", **phase("failed", reason="stopped")}
    assert launch_word({"phases": [{"phase": "report", **phase("not_started")}, stopped]}) == (
        "stopped"
    )
    assert launch_word({"phases": []}) is None


def test_only_a_launch_sends() -> None:
    counted = {"intended": 3, "waiting": 0, "inDoubt": 0, "sent": 3, "failed": 0, "skipped": 0}
    assert "3 sent" in accounting_of(counted, success_word("launch"))
    told = accounting_of(counted, success_word("audience_import"))
    assert "3 done" in told
    assert "sent" not in told


def test_a_run_that_was_stopped_is_said_to_be() -> None:
    assert run_word({"status": "partial", "stoppedAt": AHEAD}) == "stopped"
    assert run_word({"status": "failed", "stoppedAt": None}) == "failed"

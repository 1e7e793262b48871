"""Rollouts: who is in which step, which rates stop one, and what a document may say."""

import json
from typing import Any

import pytest

from outrider.documents.campaign import parse_campaign
from outrider.documents.rollout import ROLLOUT_LIMITS
from outrider.domain.campaigns import CampaignDefinition, PauseOn
from outrider.domain.errors import InvalidInput
from outrider.domain.pause_rates import RunFigures
from outrider.domain.rollouts import LAST_DRAW, DrawnShare, RolloutStep, Share, draw, drawn, shares
from outrider.kernel.transactions.campaigns import definition_document, read_definition

STEPS = [
    {"percent": 1, "holdMinutes": 10},
    {"percent": 10, "holdMinutes": 30},
    {"percent": 100},
]
THREE = (RolloutStep(1, 10), RolloutStep(10, 30), RolloutStep(100))


def test_steps_are_exact_shares_rounded_up() -> None:
    assert [share.members for share in shares(THREE, 1_000)] == [10, 90, 900]
    assert shares(THREE, 150) == [Share(1, 1, 2), Share(2, 3, 15), Share(3, 16, 150)]
    assert shares(THREE, 5) == [Share(1, 1, 1), Share(3, 2, 5)], "the second has nobody"
    assert shares(THREE, 0) == []


def test_the_draws_of_the_steps_meet_without_a_gap() -> None:
    found = drawn(shares(THREE, 150), {2: 700, 15: 9_000})
    assert found == [
        DrawnShare(1, 0, 700),
        DrawnShare(2, 701, 9_000),
        DrawnShare(3, 9_001, LAST_DRAW),
    ]


def test_a_draw_depends_on_run_and_recipient() -> None:
    assert draw("run", "lead-1") == draw("run", "lead-1")
    assert draw("run", "lead-1") != draw("another run", "lead-1")
    draws = [draw("run", f"lead-{number}") for number in range(2_000)]
    assert 900 < sum(each <= LAST_DRAW // 2 for each in draws) < 1_100


def test_a_rate_above_its_limit_is_named_with_its_numbers() -> None:
    figures = RunFigures(sent=100, bounced=6, failed=10, in_doubt=15, silent=60)
    limits = PauseOn(0.05, 0.001, 0.2, 0.5)
    assert [each.limit for each in figures.exceeded(limits)] == ["bounceRate"]
    assert [each.limit for each in figures.exceeded(limits, at_hold_end=True)] == [
        "bounceRate",
        "silenceRate",
    ]
    [failed] = figures.exceeded(PauseOn(failure_rate=0.19))
    assert failed.description == (
        "25 of 125 messages failed or are in doubt (20.00%), and pauseOn.failureRate is 19.00%"
    )
    assert RunFigures(0).exceeded(limits, at_hold_end=True) == []


def test_rates_are_judged_from_a_number_of_messages_on_that_a_campaign_sets() -> None:
    figures = RunFigures(sent=99, bounced=9, intended=1_000)
    assert figures.exceeded(PauseOn(bounce_rate=0.05)) == []
    assert figures.exceeded(PauseOn(bounce_rate=0.05, minimum_messages=99))
    # At the end of a step's hold there is nothing more to wait for.
    assert figures.exceeded(PauseOn(bounce_rate=0.05), at_hold_end=True)


def test_a_small_launch_is_judged_once_its_rate_is_too_high_however_it_ends() -> None:
    limits = PauseOn(bounce_rate=0.05)
    assert RunFigures(sent=20, bounced=2, intended=40).exceeded(limits) == []
    assert RunFigures(sent=20, bounced=3, intended=40).exceeded(limits)


def document(**fields: Any) -> dict[str, Any]:
    message = {"id": "m", "channel": "sms", "submissionTarget": "t", "body": "Hi"}
    return {"name": "n", "messages": [message], "rollout": STEPS, **fields}


def parsed(given: dict[str, Any]) -> CampaignDefinition:
    def check(_text: str, **_others: object) -> None:
        return None

    raw = json.dumps(given).encode()
    return parse_campaign(raw, check_template=check, source_root=None).definition


def test_a_rollout_is_read_stored_and_read_again() -> None:
    definition = parsed(document(pauseOn={"failureRate": 0.2, "silenceRate": 0.5}))
    assert definition.rollout == THREE
    assert definition.pause_on == PauseOn(None, None, 0.2, 0.5)
    assert read_definition(definition_document(definition)) == definition


def test_a_rollout_without_limits_has_careful_ones() -> None:
    assert parsed(document()).pause_on == ROLLOUT_LIMITS
    assert parsed(document(rollout=[])).pause_on is None


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({"rollout": [{"percent": 10}]}, "rollout",
         'must end with everybody: the last percent is 10; add {"percent": 100}'),
        ({"rollout": [{"percent": 10}, {"percent": 5}, {"percent": 100}]}, "rollout",
         "must reach more people with each step: [1].percent is 5, after 10; each percent includes"
         " the steps before it"),
        ({"rollout": [{"percent": 100, "holdMinutes": 5}]}, "rollout",
         "has a holdMinutes in its last step, after which nothing follows"),
        ({"rollout": [{"percent": 0}, {"percent": 100}]}, "rollout[0].percent",
         "should be greater than 0"),
        ({"rollout": STEPS, "scheduledFor": {"local": "2026-12-01T09:00"}}, "rollout",
         "cannot be combined with a launch at local time: when a later step is released, that time"
         " has passed; give scheduledFor as a time, or leave out the rollout"),
        ({"rollout": [], "pauseOn": {"silenceRate": 0.5}}, "pauseOn",
         "silenceRate is judged at the steps of a rollout; add a rollout, or leave it out"),
        ({"messages": [{"id": "p", "channel": "social", "submissionTarget": "t", "body": "Hi"}]},
         "rollout",
         "cannot divide a social post, which everybody sees at once; put it in a campaign of its"
         " own"),
    ],
)  # fmt: skip
def test_a_wrong_rollout_is_refused_with_what_to_do(
    given: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(document(**given))
    assert [(each.path, each.message) for each in refused.value.problems] == [(path, message)]

"""Contract 003 §11 as a person sees it: each scenario that has a half in the page, by its name.

Scenario 2 is with the servers that die, in test_server_restarts.py. Scenario 10, a key's end after
five minutes, has no such half: the console makes a new key for every click.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.conftest import World
from tests.browser.scenes import (
    expect_live,
    expect_no_toast,
    expect_state,
    open_campaign,
    progress_of,
    raw_rows,
    say,
    slow_launch,
    stage,
)

BYPASS = "01890000-0000-7000-8000-000000000001"
FEW = 800
AHEAD = 1000
"""Sequences that a test makes up lie this far ahead of what the server says meanwhile."""


@pytest.fixture
def campaign_id(world: World) -> Iterator[str]:
    with slow_launch(world, "A scenario") as made:
        yield made


def _paused(page: Page, campaign_id: str) -> None:
    open_campaign(page, campaign_id).get_by_role("button", name="Pause").click()
    expect_state(page, "paused")


def test_scenario_1_pause_survives_refresh(page: Page, campaign_id: str) -> None:
    _paused(page, campaign_id)
    page.reload()
    expect_live(page)
    expect_state(page, "paused")
    expect(stage(page).get_by_role("button", name="Resume")).to_be_visible()


def test_scenario_3_resume_continues_progress(page: Page, world: World) -> None:
    with slow_launch(world, "Continued", recipients=FEW) as campaign_id:
        _pause_resume_and_end(page, world, campaign_id)


def _pause_resume_and_end(page: Page, world: World, campaign_id: str) -> None:
    open_campaign(page, campaign_id)
    world.until(lambda: world.status(campaign_id)["phases"]["launch"]["progressPercentage"] > 2)
    stage(page).get_by_role("button", name="Pause").click()
    expect_state(page, "paused")
    # The pause may have overtaken the progress: then the run's own counts say how far it is.
    expect(stage(page).locator("[data-figure=progress]")).not_to_have_text("0\u00a0%")
    page.evaluate("""() => {
      window.seen = [];
      const look = () => {
        const figure = document.querySelector("[data-figure=progress]").textContent;
        if (window.seen.at(-1) !== figure) { window.seen.push(figure); }
      };
      look();
      new MutationObserver(look).observe(document.querySelector("main"),
        { subtree: true, childList: true, characterData: true });
    }""")
    stage(page).get_by_role("button", name="Resume").click()
    world.faults(latencyMs=0)
    expect_state(page, "completed")
    expect(stage(page).locator("[data-figure=progress]")).to_have_text("100\u00a0%")
    seen = [_percent(each) for each in page.evaluate("seen")]
    assert seen == sorted(seen)
    assert seen[0] > 0
    expect(page.locator("[data-event=phase_started]")).to_have_count(1)
    expect(page.locator("[data-event=phase_resumed]")).to_have_count(1)


def _percent(words: str) -> float:
    return float(words.removesuffix("%").strip().replace("<", "0."))


def test_scenario_4_out_of_order_sse_ignored(page: Page, world: World, campaign_id: str) -> None:
    _paused(page, campaign_id)
    known = world.status(campaign_id)["lastSequence"]
    say(page, "phase_failed", campaign_id, known - 1)
    say(page, "phase_completed", campaign_id, known)
    say(page, "phase_resumed", "00000000-0000-0000-0000-000000000000", known + AHEAD)
    expect_state(page, "paused")
    expect(page.locator("[data-event=phase_failed]")).to_have_count(0)
    # Only one that is newer is news, and only once.
    say(page, "phase_resumed", campaign_id, known + AHEAD)
    expect_state(page, "in_progress")
    say(page, "phase_paused", campaign_id, known + AHEAD)
    expect_state(page, "in_progress")


def test_scenario_5_duplicate_pause_idempotent(page: Page, campaign_id: str) -> None:
    """The answer is lost on its way, and the page asks again by itself."""
    open_campaign(page, campaign_id)
    keys: list[str] = []

    def lose_first(route: Route, request: Request) -> None:
        keys.append(request.headers["x-idempotency-key"])
        if len(keys) == 1:
            assert route.fetch().ok
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/phases/launch/pause*", lose_first)
    with page.expect_response("**/phases/launch/pause*") as answered:
        stage(page).get_by_role("button", name="Pause").click()
    assert answered.value.status == 200
    assert len(keys) == 2
    assert len(set(keys)) == 1
    expect_state(page, "paused")
    expect(page.locator("[data-event=phase_paused]")).to_have_count(1)
    expect_no_toast(page)


def test_scenario_6_invalid_transition_rejected(page: Page, campaign_id: str) -> None:
    """Nothing invalid is offered; where the page was wrong, it is corrected without a fuss."""
    _paused(page, campaign_id)
    offered = stage(page).locator("[data-action]")
    assert [each.get_attribute("data-action") for each in offered.all()] == ["resume", "stop"]
    error = {
        "code": "INVALID_PHASE_TRANSITION", "current_state": "completed",
        "attempted_action": "resume", "message": "Cannot transition",
    }  # fmt: skip
    page.route(
        "**/phases/launch/resume*",
        lambda route: route.fulfill(status=409, json={"error": error, "success": False}),
    )
    stage(page).get_by_role("button", name="Resume").click()
    expect_state(page, "completed")
    expect(page.locator(".track-note")).to_contain_text("already completed")
    expect_no_toast(page)


def test_scenario_7_progress_after_pause_ignored(
    page: Page, world: World, campaign_id: str
) -> None:
    _paused(page, campaign_id)
    sequence = world.status(campaign_id)["lastSequence"] + AHEAD
    with page.expect_console_message(lambda told: told.type == "warning") as warned:
        say(page, "campaign_progress", campaign_id, sequence, progressPercentage=77.0)
    # It was read, ignored, and warned of (CM): it stands nowhere, the feed included. What was out
    # when the pause came still ends, so the figure may grow, but never beyond what the server has.
    assert "campaign_progress ignored" in warned.value.text
    expect_state(page, "paused")
    expect(page.locator(".feed [data-event]").first).to_have_attribute("data-event", "phase_paused")
    expect(page.locator(".feed")).not_to_contain_text("77")
    figure = progress_of(page).rstrip("%\xa0")
    shown = 0 if figure.startswith("<") else int(figure)
    assert shown <= world.status(campaign_id)["phases"]["launch"]["progressPercentage"] < 77


def test_scenario_8_expected_state_precondition(page: Page, world: World, campaign_id: str) -> None:
    """The page's stream is down while somebody else pauses: what it expects is wrong."""
    page.route("**/api/v2/stream*", lambda route: route.abort())
    page.goto(f"/#/campaigns/{campaign_id}")
    expect_state(page, "in_progress")
    world.control(campaign_id, "pause")
    with page.expect_response("**/phases/launch/pause*") as answered:
        stage(page).get_by_role("button", name="Pause").click()
    assert "expected_state=in_progress" in answered.value.url
    assert answered.value.status == 409
    assert answered.value.json()["error"]["code"] == "EXPECTED_STATE_MISMATCH"
    expect_state(page, "paused")
    expect(page.locator(".track-note")).to_contain_text("already paused")
    expect_no_toast(page)


def test_scenario_9_idempotency_key_deduplication(
    page: Page, world: World, campaign_id: str
) -> None:
    open_campaign(page, campaign_id)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if _is_control(request) else None)
    stage(page).get_by_role("button", name="Pause").dblclick()
    expect_state(page, "paused")
    expect(page.locator("[data-event=phase_paused]")).to_have_count(1)
    assert len(sent) == 1
    assert world.state(campaign_id) == "paused"


def _is_control(request: Request) -> bool:
    return request.method == "POST" and "/phases/" in request.url


def test_scenario_11_bypass_audit_detection(page: Page, world: World) -> None:
    """A phase that was settled past the state machine is counted and listed for everybody."""
    detail = (
        '{"phase": "launch", "from_status": "paused", "to_status": "completed",'
        ' "caller": "phase_restorer", "reason": "its run had ended"}'
    )
    campaign_id = world.campaign("Bypassed", 1)
    with raw_rows(world) as raw:
        raw.execute(
            "INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, actor,"
            " event, detail, created_at) SELECT ?, tenant_id, workspace_id, id, 'phase_restorer',"
            " 'phase.transition_bypassed', ?, created_at FROM campaigns WHERE id = ?",
            (BYPASS, detail, campaign_id),
        )
    page.goto("/#/trouble?tab=bypasses")
    expect(page.get_by_role("link", name="Bypasses")).to_contain_text("1")
    row = page.locator(f"tr[data-key='{BYPASS}']")
    expect(row).to_contain_text("Paused")
    expect(row).to_contain_text("Completed")


# §1, §4, §8 and §9: rules for front ends beside the scenarios.


def test_controls_are_on_the_control_phase_only_whatever_is_inspected(
    page: Page, world: World
) -> None:
    with slow_launch(world, "Inspected", phases=("launch", "report")) as campaign_id:
        open_campaign(page, campaign_id, "?phase=report")
        expect(page.locator("[data-control=true]")).to_have_attribute("data-phase", "launch")
        expect(stage(page, "report").locator("[data-action]")).to_have_count(0)
        with page.expect_request("**/phases/*/pause*") as asked:
            stage(page).get_by_role("button", name="Pause").click()
        assert "/phases/launch/pause" in asked.value.url
        expect_state(page, "paused")
        expect(stage(page, "report").locator("[data-action]")).to_have_count(0)


def test_an_optimistic_state_is_shown_at_once_and_withdrawn_if_there_is_no_answer(
    page: Page, campaign_id: str
) -> None:
    open_campaign(page, campaign_id)
    page.route("**/phases/launch/pause*", lambda route: route.abort("connectionreset"))
    stage(page).get_by_role("button", name="Pause").click()
    expect(stage(page)).to_have_attribute("data-state", "paused")
    expect(stage(page).locator(".pill-guess")).to_be_visible()
    expect_state(page, "in_progress")
    expect(page.locator(".toast")).to_contain_text("could not be reached")


def test_a_snapshot_wins_over_a_guess_and_over_newer_sequences(
    page: Page, world: World, campaign_id: str
) -> None:
    """What was made up, however far ahead, is gone with the snapshot after a reconnect."""
    open_campaign(page, campaign_id)
    sequence = world.status(campaign_id)["lastSequence"] + AHEAD
    say(page, "phase_paused", campaign_id, sequence)
    expect_state(page, "paused")
    with page.expect_response(f"**/campaigns/{campaign_id}/status"):
        page.evaluate("streams.at(-1).dispatchEvent(new Event('error'))")
    expect_live(page)
    expect_state(page, "in_progress")
    world.control(campaign_id, "pause")
    expect_state(page, "paused")


def test_no_event_is_applied_between_a_disconnect_and_the_snapshot(
    page: Page, world: World, campaign_id: str
) -> None:
    _paused(page, campaign_id)
    sequence = world.status(campaign_id)["lastSequence"]
    held: list[Route] = []
    page.route(f"**/campaigns/{campaign_id}/status", lambda route: held.append(route))
    with page.expect_request("**/api/v2/stream*") as asked:
        page.evaluate("streams.at(-1).dispatchEvent(new Event('error'))")
    # The new stream begins where the page's knowledge ended, or before.
    begins = int(asked.value.url.rsplit("%40", 1)[1])
    assert begins <= sequence
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "resyncing")
    assert page.evaluate("streams.filter((each) => each.readyState !== 2).length") == 1
    say(page, "phase_resumed", campaign_id, sequence + AHEAD)
    expect_state(page, "paused")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect_state(page, "in_progress")
    expect_live(page)

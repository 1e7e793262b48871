"""A slow line, and answers that overtake each other: nothing is asked twice, nothing old is shown.

Also what happens when a page is left while something is still under way.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, Route, expect

from tests.browser.conftest import WAIT_SECONDS, World
from tests.browser.scenes import (
    MANY,
    SLOW_MS,
    expect_live,
    expect_state,
    open_campaign,
    slow_launch,
    stage,
)

LATE_MS = 400
LOOK_MS = 20


@pytest.fixture
def campaign_id(world: World) -> Iterator[str]:
    with slow_launch(world, "Over a slow line") as made:
        yield made


def hold(page: Page, pattern: str) -> list[Route]:
    """Requests that match are kept until the test lets them go."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route))
    return held


def release(held: list[Route]) -> None:
    for route in held:
        with suppress(Error):  # The page has given it up itself.
            route.continue_()


def until(page: Page, is_so: Callable[[], object]) -> None:
    for _ in range(WAIT_SECONDS * 1000 // LOOK_MS):
        if is_so():
            return
        page.wait_for_timeout(LOOK_MS)
    pytest.fail("it never came to be")


def test_clicks_on_a_slow_line_send_one_control(page: Page, campaign_id: str) -> None:
    open_campaign(page, campaign_id)
    held = hold(page, "**/phases/launch/*")
    stage(page).get_by_role("button", name="Pause").dblclick()
    expect(stage(page).locator(".pill-guess")).to_have_text("Paused")
    until(page, lambda: held)
    page.wait_for_timeout(LATE_MS)
    assert [route.request.url.rsplit("/", 1)[1].split("?")[0] for route in held] == ["pause"]
    assert len(held[0].request.headers["x-idempotency-key"]) >= 16
    held[0].continue_()
    expect_state(page, "paused")


def test_a_resume_before_the_pause_is_answered_comes_after_it(
    page: Page, world: World, campaign_id: str
) -> None:
    """CM: it used to be sent beside the pause, expected a state that was gone, and was lost."""
    open_campaign(page, campaign_id)
    held = hold(page, "**/phases/launch/*")
    stage(page).get_by_role("button", name="Pause").click()
    until(page, lambda: held)
    stage(page).get_by_role("button", name="Resume").click()
    expect(stage(page).locator(".pill-guess")).to_have_text("In progress")
    page.wait_for_timeout(LATE_MS)
    assert len(held) == 1
    held[0].continue_()
    until(page, lambda: len(held) == 2)
    # The pause is told of, and what was asked for after it stays on show.
    expect(page.locator("[data-event=phase_paused]")).to_have_count(1)
    expect(stage(page).locator(".pill-guess")).to_have_text("In progress")
    assert held[1].request.url.endswith("/resume?expected_state=paused")
    held[1].continue_()
    expect_state(page, "in_progress")
    expect(page.locator("[data-event=phase_resumed]")).to_have_count(1)
    expect(page.locator(".track-note .note")).to_have_count(0)
    assert world.state(campaign_id) == "in_progress"


def test_a_page_says_that_it_loads(page: Page, campaign_id: str) -> None:
    held = hold(page, f"**/campaigns/{campaign_id}/status")
    page.goto(f"/#/campaigns/{campaign_id}")
    expect(page.locator("main [aria-busy]")).to_be_visible()
    until(page, lambda: held)
    held[0].continue_()
    expect_state(page, "in_progress")
    expect(page.locator("main [aria-busy]")).to_have_count(0)


def test_a_snapshot_that_an_event_overtook_is_not_shown(page: Page, world: World) -> None:
    """A turning point has the page fetch a snapshot; a pause happens while that is on its way."""
    campaign_id = world.campaign("Overtaken", MANY)
    world.faults(latencyMs=SLOW_MS)
    open_campaign(page, campaign_id)
    held: list[Route] = []
    page.route(
        f"**/campaigns/{campaign_id}/status",
        lambda route: held.append(route) if not held else route.continue_(),
    )
    world.control(campaign_id, "start")
    until(page, lambda: held)
    old = held[0].fetch()
    assert old.json()["phases"]["launch"]["state"] == "in_progress"
    page.evaluate("""() => {
      window.shown = [];
      const look = () => shown.push(document.querySelector("[data-phase=launch]").dataset.state);
      new MutationObserver(look).observe(document.querySelector("main"),
        { subtree: true, attributes: true });
    }""")
    world.control(campaign_id, "pause")
    expect_state(page, "paused")
    held[0].fulfill(response=old)
    page.wait_for_timeout(LATE_MS)
    expect_state(page, "paused")
    shown = page.evaluate("shown")
    assert "in_progress" not in shown[shown.index("paused") :]
    world.faults()
    world.control(campaign_id, "stop")


@pytest.mark.parametrize("first", ["event", "answer"])
def test_an_event_and_the_answer_may_come_in_either_order(
    page: Page, world: World, campaign_id: str, first: str
) -> None:
    open_campaign(page, campaign_id)
    held = hold(page, "**/phases/launch/pause*")
    stage(page).get_by_role("button", name="Pause").click()
    until(page, lambda: held)
    if first == "event":
        answer = held[0].fetch()
        expect_state(page, "paused")
        world.control(campaign_id, "resume")
        expect_state(page, "in_progress")
        # The answer is about what was; the event after it is what is.
        held[0].fulfill(response=answer)
        page.wait_for_timeout(LATE_MS)
        expect_state(page, "in_progress")
    else:
        page.evaluate("streams.at(-1).close()")
        held[0].continue_()
        expect(stage(page)).to_have_attribute("data-state", "paused")
        page.evaluate("streams.at(-1).dispatchEvent(new Event('error'))")
        expect_state(page, "paused")


def test_a_refusal_after_an_event_does_not_undo_it(
    page: Page, world: World, campaign_id: str
) -> None:
    open_campaign(page, campaign_id)
    held = hold(page, "**/phases/launch/pause*")
    stage(page).get_by_role("button", name="Pause").click()
    until(page, lambda: held)
    world.control(campaign_id, "pause")
    expect_state(page, "paused")
    refused = held[0].fetch()
    assert refused.status == 409
    world.control(campaign_id, "resume")
    expect_state(page, "in_progress")
    held[0].fulfill(response=refused)
    page.wait_for_timeout(LATE_MS)
    expect_state(page, "in_progress")


def test_an_answer_for_a_page_that_was_left_changes_nothing(page: Page) -> None:
    held = hold(page, "**/api/v2/targets")
    page.goto("/#/targets")
    until(page, lambda: held)
    page.evaluate("location.hash = '#/campaigns'")
    expect_live(page)
    release(held)
    page.wait_for_timeout(LATE_MS)
    expect(page.locator("h1")).to_have_text("Campaigns")


def test_a_dialog_of_a_page_that_was_left_does_not_head_the_next_one(page: Page) -> None:
    page.goto("/#/targets")
    expect(page.locator("h1")).to_have_text("Targets")
    page.evaluate("location.hash = '#/settings'")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("left open")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[data-secret]")).to_be_visible()
    page.go_back()
    expect(page.locator("dialog")).to_have_count(0)
    page.wait_for_timeout(LATE_MS)
    expect(page.locator("h1")).to_have_text("Targets")


def test_travel_through_a_log_does_not_rewrite_the_address_of_another_page(
    page: Page, world: World
) -> None:
    run_id = world.run_of(world.launched("Travelled"))
    page.goto(f"/#/runs/{run_id}")
    held = hold(page, "**/snapshot?at=*")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    until(page, lambda: held)
    page.evaluate("location.hash = '#/targets'")
    expect(page.locator("h1")).to_have_text("Targets")
    release(held)
    page.wait_for_timeout(LATE_MS)
    assert page.url.endswith("#/targets")


def test_a_tab_of_a_run_keeps_its_rows_and_its_focus_while_the_run_continues(
    page: Page, world: World, campaign_id: str
) -> None:
    run_id = world.run_of(campaign_id)
    page.goto(f"/#/runs/{run_id}?tab=jobs")
    expect(page.get_by_role("region", name="Jobs").locator("tbody tr")).not_to_have_count(0)
    page.get_by_role("link", name="Items").click()
    rows = page.get_by_role("region", name="Items").locator("tbody tr")
    expect(rows).not_to_have_count(0)
    expect_live(page)
    find = page.get_by_label("Recipient ID")
    find.press_sequentially("lead-")
    with page.expect_response(f"**/runs/{run_id}?*"):
        world.control(campaign_id, "pause")
    with page.expect_response(f"**/runs/{run_id}?*"):
        world.control(campaign_id, "resume")
    page.wait_for_timeout(LATE_MS)
    expect(find).to_be_focused()
    expect(find).to_have_value("lead-")
    expect(rows).not_to_have_count(0)


def test_recipients_can_be_uploaded_twice(page: Page, world: World) -> None:
    campaign_id = world.campaign("Filled twice", 1)
    page.goto(f"/#/new?campaign={campaign_id}")
    for number in (2, 3):
        csv = f"id,phone\nlead-{number},+44770090012{number}\n".encode()
        page.get_by_label("Recipient file").set_input_files(
            {"name": "people.csv", "mimeType": "text/csv", "buffer": csv}
        )
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_text(f"with {number} recipients")).to_be_visible()
        page.get_by_role("button", name="Count recipients").click()
        expect(page.locator(".figures")).to_be_visible()


TOLD_AFTER_MS = 450
"""Half a second, less what timers are early by."""


def test_connecting_is_not_shown_on_every_page(page: Page, campaign_id: str) -> None:
    page.goto("/#/campaigns")
    expect_live(page)
    page.evaluate("""() => {
      window.told = {};
      window.leftAt = performance.now();
      const look = () => document.querySelectorAll(".connection")
        .forEach((each) => { told[each.textContent] ??= performance.now() - leftAt; });
      new MutationObserver(look).observe(document.body,
        { subtree: true, childList: true, characterData: true });
    }""")
    page.evaluate("(id) => { location.hash = `#/campaigns/${id}`; }", campaign_id)
    expect_state(page, "in_progress")
    expect_live(page)
    told = page.evaluate("told")
    # Where the machine is so busy that it took longer, it is right to say so.
    assert told.pop("Connecting", TOLD_AFTER_MS) >= TOLD_AFTER_MS
    assert list(told) == ["Live"]

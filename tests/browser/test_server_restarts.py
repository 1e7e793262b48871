"""The server dies, stays away and comes back under an open page; and a session ends under one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import (
    World,
    new_context,
    running_world,
    sign_in,
    watched_page,
)
from tests.browser.scenes import (
    expect_live,
    expect_no_toast,
    expect_state,
    open_campaign,
    slow_launch,
    stage,
)
from tests.support.broken_server import closed_port

BACK_MS = 60_000


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of this file's own, which comes back at the same address."""
    with running_world(tmp_path_factory.mktemp("mortal"), closed_port()) as made:
        yield made


@pytest.fixture
def page(chromium: Browser, mortal: World) -> Iterator[Page]:
    with new_context(chromium, mortal) as context, watched_page(context) as page:
        yield page


def test_scenario_2_pause_survives_backend_restart(page: Page, mortal: World) -> None:
    """Killed, not asked to stop: nothing was said on the stream."""
    with slow_launch(mortal, "Survivor") as campaign_id:
        open_campaign(page, campaign_id).get_by_role("button", name="Pause").click()
        expect_state(page, "paused")
        mortal.server.kill()
        expect(page.locator(".connection")).to_contain_text("Reconnecting in")
        expect_state(page, "paused")
        with page.expect_response(f"**/campaigns/{campaign_id}/status", timeout=BACK_MS) as fresh:
            mortal.server.start()
        assert fresh.value.json()["phases"]["launch"]["state"] == "paused"
        expect_live(page)
        expect_state(page, "paused")
        expect_no_toast(page)
        # And it is live indeed.
        mortal.control(campaign_id, "resume")
        expect_state(page, "in_progress")


def test_events_during_a_disconnection_are_shown_afterwards(page: Page, mortal: World) -> None:
    """Away for longer than a few tries; the page says so, and shows the truth when it is back."""
    with slow_launch(mortal, "Changed meanwhile") as campaign_id:
        open_campaign(page, campaign_id)
        page.route("**/api/v2/stream*", lambda route: route.abort())
        mortal.server.kill()
        expect(page.locator(".connection")).to_contain_text("Reconnecting in")
        # A click that nobody hears is taken back.
        stage(page).get_by_role("button", name="Pause").click()
        expect(page.locator(".toast")).to_contain_text("could not be reached")
        expect_state(page, "in_progress")
        # Pages that were not looked at yet say what is wrong, and go on by themselves.
        page.evaluate("location.hash = '#/targets'")
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        mortal.server.start()
        mortal.control(campaign_id, "pause")
        expect(page.locator("h1")).to_have_text("Targets")
        page.unroute("**/api/v2/stream*")
        page.go_back()
        expect_live(page)
        expect_state(page, "paused")


def test_every_page_recovers_automatically_after_a_long_outage(page: Page, mortal: World) -> None:
    with slow_launch(mortal, "Long away") as campaign_id:
        page.goto("/#/campaigns")
        expect_live(page)
        mortal.server.kill()
        for _ in range(3):
            with page.expect_request("**/api/v2/stream*", timeout=BACK_MS):
                expect(page.locator(".connection")).to_contain_text("Reconnecting in")
        mortal.server.start()
        mortal.control(campaign_id, "pause")
        row = page.locator(f"tr[data-key='{campaign_id}'] .pill")
        expect(row).to_have_attribute("data-state", "paused", timeout=BACK_MS)
        expect_live(page)


def test_a_key_revoked_under_an_open_page_leads_to_sign_in_and_back(
    chromium: Browser, mortal: World
) -> None:
    made = mortal.call("POST", "/keys", {"name": "brief", "scopes": ["operate"]})
    with (
        slow_launch(mortal, "Looked at") as campaign_id,
        new_context(chromium, mortal, made["key"]) as context,
        watched_page(context) as page,
    ):
        open_campaign(page, campaign_id, "?phase=launch")
        before = page.url
        mortal.call("DELETE", f"/keys/{made['id']}")
        # Nobody clicks anything: the stream ends, and the page asks who is signed in.
        expect(page.get_by_label("API key")).to_be_visible(timeout=BACK_MS)
        expect(page.get_by_role("alert")).to_contain_text("session has ended")
        expect(page.get_by_label("API key")).to_be_focused()
        page.get_by_label("API key").fill(mortal.key)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Looked at")
        assert page.url == before
        expect_live(page)


def test_a_click_after_the_session_ended_leads_to_sign_in(page: Page, mortal: World) -> None:
    with slow_launch(mortal, "Expired") as campaign_id:
        open_campaign(page, campaign_id)
        page.context.clear_cookies()
        stage(page).get_by_role("button", name="Pause").click()
        expect(page.get_by_label("API key")).to_be_visible()
        expect_no_toast(page)
        assert mortal.state(campaign_id) == "in_progress"


def test_a_tab_does_nothing_in_the_name_of_who_signed_in_beside_it(
    page: Page, mortal: World
) -> None:
    other = mortal.call("POST", "/keys", {"name": "somebody else", "scopes": ["operate"]})["key"]
    with slow_launch(mortal, "Whose click") as campaign_id:
        open_campaign(page, campaign_id)
        sign_in(page.context, other)
        stage(page).get_by_role("button", name="Pause").click()
        expect(page.get_by_label("API key")).to_be_visible()
        assert mortal.state(campaign_id) == "in_progress"

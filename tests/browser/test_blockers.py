"""Why a campaign or a run is not moving, on its pages: said while it lasts, and gone afterwards."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import SMS, World, sign_in
from tests.browser.scenes import barriers, expect_live, expect_state, open_campaign
from tests.support.first_word import FirstWord

RETRY_SECONDS = 3


@contextmanager
def throttled(world: World) -> Iterator[None]:
    """The provider answers everything with a request to come again later."""
    world.faults(throttleRate=1, retryAfterSeconds=RETRY_SECONDS)
    try:
        yield
    finally:
        world.faults(throttleRate=0)
        world.call("POST", f"/targets/{SMS}/reset")


def blockers(page: Page) -> Locator:
    return page.locator("[data-blocker]")


def test_a_throttled_target_is_said_on_an_open_page_and_gone_when_it_has_ended(
    page: Page, world: World, record_property: Callable[[str, object], None]
) -> None:
    campaign_id = world.campaign("Held up by its provider", 3)
    open_campaign(page, campaign_id)
    expect(blockers(page)).to_have_count(0)
    with throttled(world):
        word = FirstWord(record_property)
        world.control(campaign_id, "start")
        said = page.locator("[data-blocker=TARGET_THROTTLED]")
        expect(said).to_contain_text(f"The target {SMS}")
        word.on("page")
        expect(said).to_contain_text("asks to retry later")
        expect(said).to_contain_text("Its messages wait without using up attempts.")
        expect(said.locator("time").first).to_have_text(re.compile(r"^(now|\d+ s ago)$"))
        # Commands are marked as such, and not by backticks.
        expect(said.locator("code").first).to_have_text("rate_per_second")
        expect(said).not_to_contain_text("`")
        assert not barriers(page)
    expect_state(page, "completed")
    expect(blockers(page)).to_have_count(0)


def test_a_blocker_leads_to_its_target(page: Page, world: World) -> None:
    campaign_id = world.campaign("Held up by somebody", 3)
    with throttled(world):
        world.control(campaign_id, "start")
        page.goto(f"/#/runs/{world.run_of(campaign_id)}")
        expect_live(page)
        said = page.locator("[data-blocker=TARGET_THROTTLED]")
        said.get_by_role("link", name=f"View {SMS}").click()
        expect(page.locator("h1")).to_have_text(SMS)
        expect(page.locator("main")).to_contain_text("Throttled")
        page.go_back()
        expect(said).to_be_visible()
    expect(blockers(page)).to_have_count(0)
    expect(page.locator(".title-row .pill").first).to_have_attribute("data-state", "completed")


def test_a_page_says_that_the_database_is_down_and_takes_it_back(page: Page, world: World) -> None:
    campaign_id = world.campaign("Without its database", 3)
    is_down = [True]
    down = {"code": "DATABASE_DOWN", "since": "2026-03-01T10:00:00Z",
            "message": "The database has not answered since 2026-03-01T10:00:00Z.",
            "hint": "Restore the database.", "submissionTarget": None}  # fmt: skip
    error = {"code": "STORE_UNAVAILABLE", "message": "the database is unavailable"}

    def answer(route: Route) -> None:
        if is_down:
            route.fulfill(status=503, json={"error": {**error, "blockers": [down]}})
        else:
            route.continue_()

    with throttled(world):
        world.control(campaign_id, "start")
        open_campaign(page, campaign_id)
        expect(page.locator("[data-blocker=TARGET_THROTTLED]")).to_be_visible()
        page.route(f"**/campaigns/{campaign_id}/status", answer)
        expect(page.locator("[data-blocker=DATABASE_DOWN]")).to_contain_text("has not answered")
        page.reload()
        expect(page.locator("[data-blocker=DATABASE_DOWN]")).to_contain_text("Restore")
        is_down.clear()
        expect(page.locator("[data-blocker=TARGET_THROTTLED]")).to_be_visible()
        expect(page.locator("[data-blocker=DATABASE_DOWN]")).to_have_count(0)
    expect_state(page, "completed")


def test_a_single_message_says_what_it_waits_for(page: Page, world: World) -> None:
    intent = {"intentId": "held-up", "submissionTarget": SMS,
              "payload": {"to": "+447700900999", "message": "On its way"}}  # fmt: skip
    with throttled(world):
        world.call("POST", "/intents", intent)
        page.goto("/#/intents/held-up")
        said = page.locator("[data-blocker=TARGET_THROTTLED]")
        expect(said).to_contain_text("asks to retry later")
        expect(page.locator("main")).to_contain_text("is not finished yet")
        outbox_id = world.call("GET", "/intents/held-up")["outboxId"]
        page.goto(f"/#/items/{outbox_id}")
        expect(said).to_be_visible()
    expect(blockers(page)).to_have_count(0)
    expect(page.locator(".title-row .pill").first).to_have_attribute("data-state", "sent")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_blocker_fits_a_phone_in_either_theme(
    chromium: Browser, world: World, scheme: Literal["light", "dark"]
) -> None:
    campaign_id = world.campaign(f"Held up on a phone, {scheme}", 3)
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, base_url=world.url, color_scheme=scheme
    )
    sign_in(context, world.key)
    page = context.new_page()
    with throttled(world):
        world.control(campaign_id, "start")
        for address in (f"campaigns/{campaign_id}", f"runs/{world.run_of(campaign_id)}"):
            page.goto(f"/#/{address}")
            expect(page.locator("[data-blocker=TARGET_THROTTLED]")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert not barriers(page)
    context.close()
    world.until(lambda: world.state(campaign_id) == "completed")

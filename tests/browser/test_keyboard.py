"""Without a mouse: signing in, pausing and resuming, settling a doubt; one always sees where."""

import re

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import World
from tests.browser.scenes import doubt_all, expect_live, expect_state, slow_launch, stage

TABS_MOST = 60


def _tab_to(page: Page, wanted: Locator) -> None:
    """By the Tab key alone; whatever has the focus on the way shows it."""
    expect(wanted).to_be_visible()
    for _ in range(TABS_MOST):
        page.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            break
    expect(wanted).to_be_focused()
    assert page.evaluate(
        """() => {
          const style = getComputedStyle(document.activeElement);
          return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1
            || style.boxShadow !== "none";
        }"""
    ), "the focus is not seen"


def test_signing_in_pausing_and_resuming(chromium: Browser, world: World) -> None:
    with slow_launch(world, "By keys") as campaign_id:
        context = chromium.new_context(base_url=world.url)
        page = context.new_page()
        page.goto("/")
        expect(page.get_by_label("API key")).to_be_focused()
        page.keyboard.type(world.key)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Campaigns")
        page.keyboard.press("Tab")
        _tab_to(page, page.get_by_role("link", name="By keys"))
        page.keyboard.press("Enter")
        expect_live(page)
        assert campaign_id in page.url
        pause = stage(page).get_by_role("button", name="Pause")
        _tab_to(page, pause)
        page.keyboard.press("Enter")
        expect_state(page, "paused")
        # The same place is Resume now, and still has the focus.
        expect(stage(page).get_by_role("button", name="Resume")).to_be_focused()
        page.keyboard.press("Space")
        expect_state(page, "in_progress")
        expect(pause).to_be_focused()
        context.close()


def test_the_first_tab_leads_past_the_navigation(page: Page) -> None:
    page.goto("/#/targets")
    expect(page.locator("h1")).to_have_text("Targets")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page).to_have_url(re.compile(r"#/targets$"))


def test_settling_a_doubt(page: Page, world: World) -> None:
    campaign_id = world.launched("Doubted", 2)
    doubt_all(world, campaign_id)
    item = _doubts(world, campaign_id)[0]
    page.goto(f"/#/doubts?campaignId={campaign_id}")
    resolve = page.get_by_role("button", name=f"Resolve {item['recipientId']}")
    _tab_to(page, resolve)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    # Escape gives the focus back to where it was.
    page.keyboard.press("Escape")
    expect(resolve).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="It was sent")).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.type("Seen in the provider's export")
    _tab_to(page, page.get_by_role("dialog").get_by_role("button", name="Resolve"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(resolve).to_have_count(0)
    assert item["outboxId"] not in [each["outboxId"] for each in _doubts(world, campaign_id)]


def _doubts(world: World, campaign_id: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = world.call("GET", f"/doubts?campaignId={campaign_id}")["items"]
    return found

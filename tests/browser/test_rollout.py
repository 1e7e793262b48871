"""A launch in steps, on its campaign's page: where it stands, and the button that goes on."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import World
from tests.browser.scenes import barriers, expect_state, open_campaign

STEPS = [{"percent": 10, "holdMinutes": 60}, {"percent": 50, "holdMinutes": 60}, {"percent": 100}]


def test_a_page_shows_the_steps_of_a_rollout_and_releases_the_next_one(
    page: Page, world: World
) -> None:
    campaign_id = world.campaign("Step by step", 20, rollout=STEPS)
    world.control(campaign_id, "start")
    open_campaign(page, campaign_id)
    rows = page.locator("[data-rollout] tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("10 %")
    expect(rows.nth(0)).to_contain_text("Being watched")
    expect(rows.nth(0)).to_contain_text("Next step at")
    expect(rows.nth(2)).to_contain_text("Follows the step before it")
    expect(page.locator("[data-blocker=ROLLOUT_HOLD]")).to_contain_text("Step 1 of 3")
    assert not barriers(page)
    release(page)
    expect(rows.nth(0)).to_contain_text("Done")
    expect(rows.nth(1)).to_contain_text("Being watched")
    release(page)
    expect_state(page, "completed")
    expect(rows.nth(2)).to_contain_text("Done")
    expect(page.locator("[data-action=advance]")).to_have_count(0)


def test_a_rollout_that_paused_itself_says_why(page: Page, world: World) -> None:
    steps = [{"percent": 10}, {"percent": 100}]
    campaign_id = world.campaign("Something is wrong", body="Hi {{ nobody }}", rollout=steps)
    world.control(campaign_id, "start")
    open_campaign(page, campaign_id)
    expect_state(page, "paused")
    expect(page.locator("[data-rollout] tbody tr").nth(0)).to_contain_text(
        "Paused the launch: too many failures"
    )
    expect(page.locator("[data-phase=launch]")).to_contain_text("2 of 2 messages failed")
    expect(page.locator("[data-action=advance]")).to_have_count(0)
    world.call("POST", f"/campaigns/{campaign_id}/stop")


def release(page: Page) -> None:
    page.locator("[data-action=advance]").click()
    page.get_by_role("button", name="Release now").click()

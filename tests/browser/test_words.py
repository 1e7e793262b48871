"""U3: what the pages call an import, a campaign of next year, a stop, a failure, and all runs."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import SMS, World
from tests.browser.scenes import expect_live, expect_state, open_campaign, slow_launch, stage

PEOPLE = 300


def test_an_import_sends_nothing(page: Page, world: World) -> None:
    campaign_id = world.campaign("Imported", 20, phases=("audience_import", "launch"))
    world.control(campaign_id, "start", "audience_import")
    world.until(lambda: world.state(campaign_id, "audience_import") == "completed")
    open_campaign(page, campaign_id)
    expect(page.locator("[data-part=sent] dt")).to_have_text("Done")
    expect(page.locator("[data-part=sent] dd")).to_contain_text("20")
    expect(page.locator("main")).not_to_contain_text(re.compile(r"\bsent\b"))
    page.goto("/#/campaigns")
    row = page.locator(f"tr[data-key='{campaign_id}']")
    expect(row).to_be_visible()
    expect(row.locator("td").nth(4)).to_have_text("–")


def test_a_phase_that_starts_next_year_is_scheduled(page: Page, world: World) -> None:
    made = world.call(
        "POST",
        "/campaigns",
        {
            "name": "Next year",
            "phases": ["launch"],
            "audience": {"recipients": [{"id": "a", "phone": "+447700900001"}]},
            "messages": [{"id": "m", "channel": "sms", "submissionTarget": SMS, "body": "Hi"}],
            "scheduledFor": "2097-01-01T09:00:00Z",
        },
    )
    campaign_id = made["campaignId"]
    world.control(campaign_id, "start")
    open_campaign(page, campaign_id)
    expect(stage(page).locator(".pill")).to_have_text("Scheduled")
    expect(stage(page)).to_contain_text(re.compile(r"Starts .*1 Jan 2097"))
    expect(page.locator("[data-blocker=SCHEDULED]")).to_contain_text("1 Jan 2097")
    expect(page.locator(".title-row .pill")).to_have_text("Scheduled")
    page.goto("/#/campaigns")
    expect(page.locator(f"tr[data-key='{campaign_id}'] .pill")).to_have_text("Scheduled")
    world.control(campaign_id, "stop")


def test_a_stop_is_no_failure_and_a_retry_shows_every_message_once(
    page: Page, world: World
) -> None:
    with slow_launch(world, "Stopped and retried", recipients=PEOPLE) as campaign_id:
        open_campaign(page, campaign_id)
        expect(page.locator("[data-part=sent] dd")).to_have_text(re.compile(r"[1-9]"))
        stage(page).get_by_role("button", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop phase").click()
        expect_state(page, "failed")
        expect(stage(page).locator(".pill")).to_have_text("Stopped")
        expect(stage(page).locator(".pill-bad")).to_have_count(0)
        expect(page.locator(".title-row .pill")).to_have_text("Stopped")
        expect(page.locator("[data-event=phase_failed]")).to_contain_text("Launch stopped")
        world.faults(latencyMs=0)
        world.until(lambda: _waiting(world, campaign_id) == 0)
        stage(page).get_by_role("button", name="Retry").click()
        expect_state(page, "completed")
        expect(page.locator("[data-figure=runs]")).to_contain_text("All 2 runs combined")
        expect(page.locator("[data-part=intended] dd")).to_have_text(str(PEOPLE))
        expect(page.locator("[data-part=sent] dd")).to_contain_text(str(PEOPLE))
        expect(page.locator("[data-figure=latest-run]")).not_to_contain_text(f"{PEOPLE} sent")
        page.goto("/#/campaigns")
        expect_live(page)
        row = page.locator(f"tr[data-key='{campaign_id}']")
        expect(row.locator("td").nth(4)).to_have_text(str(PEOPLE))


def test_a_failed_phase_says_why_on_its_campaign_and_on_its_run(page: Page, world: World) -> None:
    campaign_id = world.campaign("Fails", 3, body="Hi {{ nick_name }}")
    open_campaign(page, campaign_id)
    world.control(campaign_id, "start")
    expect_state(page, "failed")
    why = "3 of 3 messages failed, most of them with render failed: body, line 1: nick_name is"
    expect(stage(page)).to_contain_text(f"Reason: {why} undefined")
    # As the author of the message wrote it, whatever is done to codes.
    expect(stage(page).locator("code")).to_have_text("nick_name")
    expect(page.locator("[data-event=phase_failed]")).to_contain_text(f"Launch failed ({why}")
    page.get_by_role("link", name="View run").click()
    expect(page.locator("main")).to_contain_text(why)
    expect(page.locator("main")).not_to_contain_text("render_failed: body")


def _waiting(world: World, campaign_id: str) -> int:
    return int(world.status(campaign_id)["phases"]["launch"]["accounting"]["waiting"])

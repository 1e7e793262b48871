"""What a person reads on a campaign's page: what it is ready for, what happened, how much."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import World
from tests.browser.scenes import doubt_all, expect_state, open_campaign, slow_launch, stage


def test_a_campaign_says_what_it_is_ready_for_and_offers_it(page: Page, world: World) -> None:
    campaign_id = world.campaign("Launched, not reported", 3, phases=("launch", "report"))
    world.control(campaign_id, "start")
    world.until(lambda: world.state(campaign_id) == "completed")
    page.goto("/#/campaigns")
    row = page.locator(f"tr[data-key='{campaign_id}']")
    expect(row.locator(".pill")).to_have_text("Ready for Report")
    open_campaign(page, campaign_id)
    expect(page.locator(".title-row .pill")).to_have_text("Ready for Report")
    page.locator(".page-actions").get_by_role("button", name="Start Report").click()
    expect_state(page, "completed", "report")
    expect(page.locator(".title-row .pill")).to_have_text("Completed")
    expect(page.locator(".page-actions [data-action]")).to_have_count(0)


def test_events_from_before_the_page_was_opened_are_listed(page: Page, world: World) -> None:
    campaign_id = world.launched("Long done", 30)
    open_campaign(page, campaign_id)
    expect(page.locator("[data-event=phase_started]")).to_have_count(1)
    expect(page.locator(".feed [data-event]").first).to_have_attribute(
        "data-event", "phase_completed"
    )


def test_a_share_of_one_in_thousands_is_counted_and_shown(page: Page, world: World) -> None:
    campaign_id = world.launched("One in many", 2)
    parts = {"waiting": 0, "inDoubt": 1, "sent": 99_990, "failed": 1, "skipped": 8}

    def counted_so(snapshot: dict[str, object]) -> dict[str, object]:
        phases = snapshot["phases"]
        assert isinstance(phases, dict)
        phases["launch"]["accounting"] = {"intended": 100_000, **parts}
        return snapshot

    page.route(
        f"**/campaigns/{campaign_id}/status",
        lambda route: route.fulfill(json=counted_so(route.fetch().json())),
    )
    open_campaign(page, campaign_id)
    for part in ("inDoubt", "failed", "skipped"):
        expect(page.locator(f"[data-part={part}] dd")).to_contain_text("<1\u00a0%")
        drawn = page.locator(f".bar-large .part-{part}").bounding_box()
        assert drawn is not None
        assert drawn["width"] >= 3
    expect(page.locator("[data-part=sent] dd")).to_contain_text("99.9\u00a0%")


def test_a_paused_phase_counts_the_calls_that_ended_after_it_and_shows_its_pace(
    page: Page, world: World
) -> None:
    with slow_launch(world, "Paused under way") as campaign_id:
        open_campaign(page, campaign_id)
        # Some have ended, and no batch of them.
        expect(page.locator("[data-part=sent] dd")).to_have_text(re.compile(r"[1-9]"))
        stage(page).get_by_role("button", name="Pause").click()
        expect_state(page, "paused")
        world.until(lambda: _under_way(world, campaign_id) == 0)
        sent = world.status(campaign_id)["phases"]["launch"]["accounting"]["sent"]
        expect(page.locator("[data-part=sent] dd")).to_have_text(re.compile(rf"^{sent}\b"))
        expect(page.locator(".chart")).to_be_visible()
        runs = page.get_by_role("region", name="Runs")
        expect(runs.locator(".pill").first).to_have_text("Paused")
        page.reload()
        expect(page.locator(".chart")).to_be_visible()


def _under_way(world: World, campaign_id: str) -> int:
    items = world.call("GET", f"/runs/{world.run_of(campaign_id)}/outbox?status=queued")["items"]
    return len(items)


def test_a_run_leads_to_what_is_in_doubt_in_it(page: Page, world: World) -> None:
    campaign_id = world.launched("Doubted by run", 2)
    doubt_all(world, campaign_id)
    run_id = world.run_of(campaign_id)
    page.goto(f"/#/runs/{run_id}")
    page.get_by_role("link", name="Resolve items in doubt (2)").click()
    rows = page.locator("tbody")
    expect(rows.get_by_role("button", name=re.compile("^Resolve "))).to_have_count(2)
    assert page.url.endswith(f"#/doubts?runId={run_id}")


def test_a_wrong_clock_of_the_reader_changes_no_timestamp_and_no_rate(
    page: Page, world: World
) -> None:
    page.add_init_script("const now = Date.now; Date.now = () => now() + 3_600_000;")
    with slow_launch(world, "Read an hour ahead") as campaign_id:
        page.goto("/#/campaigns")
        row = page.locator(f"tr[data-key='{campaign_id}']")
        expect(row.locator("time")).to_have_text(re.compile(r"^(now|\d+ s ago)$"))
        expect(row).to_contain_text(re.compile(r"\d/s"))

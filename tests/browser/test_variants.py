"""A/B variants on the campaign's page: the figures of the test, and the choice of a winner."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import SMS, World
from tests.browser.scenes import barriers, expect_state, open_campaign

STEPS = [{"percent": 50}, {"percent": 100}]
VARIED = [
    {
        "id": "offer", "channel": "sms", "submissionTarget": SMS, "body": "Hi",
        "variants": [{"id": "short"}, {"id": "long", "body": "Hello, and welcome"}],
    }
]  # fmt: skip


def test_a_page_compares_variants_and_a_person_chooses_one(page: Page, world: World) -> None:
    campaign_id = world.campaign(
        "Which text is better?", 40, messages=VARIED, rollout=STEPS, winner={"by": "person"}
    )
    world.control(campaign_id, "start")
    open_campaign(page, campaign_id)
    expect(page.locator("[data-blocker=AWAITING_WINNER]")).to_contain_text("'offer'")
    rows = page.locator("[data-variants=offer] tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("short")
    expect(rows.nth(1)).to_contain_text("Send this one")
    assert not barriers(page)
    page.locator("[data-action=decide-long]").click()
    page.get_by_role("button", name="Choose it").click()
    expect(rows.nth(1)).to_contain_text("Chosen by")
    expect_state(page, "completed")
    expect(page.locator("[data-action=decide-short]")).to_have_count(0)
    run_id = world.run_of(campaign_id)
    found = world.call("GET", f"/runs/{run_id}/variants")["messages"][0]
    assert found["winner"]["variant"] == "long"
    assert sum(each["sent"] for each in found["variants"]) == 20

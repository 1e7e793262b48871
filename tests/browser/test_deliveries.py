"""What receipts report, as the console shows it: in a launch's ledger and on an item's page."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import World
from tests.browser.scenes import open_campaign, raw_rows


def receive(world: World, run_id: str, outbox_id: str, state: str, reason: str) -> None:
    """As if the provider had reported this of the item."""
    with raw_rows(world) as raw:
        raw.execute(
            "INSERT INTO deliveries (outbox_id, run_id, state, permanent, reason, occurred_at,"
            " rank, receipt_id) SELECT id, run_id, ?, 1, ?, updated_at, 4, 'r-1'"
            " FROM channel_outbox WHERE id = ?",
            (state, reason, outbox_id),
        )
        raw.execute("INSERT INTO run_deliveries VALUES (?, ?, 1)", (run_id, state))


def test_a_bounce_is_shown_in_the_ledger_and_on_the_items_page(world: World, page: Page) -> None:
    campaign_id = world.launched("A launch with a bounce")
    run_id = world.run_of(campaign_id)
    item = world.call("GET", f"/runs/{run_id}/outbox?limit=1")["items"][0]
    open_campaign(page, campaign_id)
    expect(page.locator("[data-part=sent]").first).to_be_visible()
    expect(page.locator(".ledger-deliveries")).to_have_count(0)

    receive(world, run_id, item["outboxId"], "bounced", "no such number")
    sent = world.status(campaign_id)["phases"]["launch"]["accounting"]["sent"]
    # The run has ended, and the page shows it without being loaded again.
    expect(page.locator(".ledger-deliveries [data-delivery=bounced]").first).to_have_text(
        "Bounced 1", timeout=30_000
    )
    for address in (f"#/campaigns/{campaign_id}", f"#/runs/{run_id}"):
        page.goto(f"/{address}")
        shown = page.locator(".ledger-deliveries").first
        expect(shown.locator("[data-delivery=bounced]")).to_have_text("Bounced 1")
        expect(shown.locator("[data-delivery=unknown]")).to_have_text(f"No receipt {sent - 1}")
        expect(shown.locator("[data-delivery]")).to_have_count(2)
        # A sign as well as a colour tells it apart.
        expect(shown.locator("[data-delivery=bounced] svg")).to_be_visible()
    # So does the run's own page.
    other = world.call("GET", f"/runs/{run_id}/outbox?limit=2")["items"][1]
    receive(world, run_id, other["outboxId"], "delivered", "")
    expect(page.locator(".ledger-deliveries [data-delivery=delivered]").first).to_have_text(
        "Delivered 1", timeout=30_000
    )
    expect(page.locator(".ledger-deliveries [data-delivery]")).to_have_count(3)

    page.goto(f"/#/items/{item['outboxId']}")
    expect(page.locator("h1")).to_contain_text(item["recipientId"])
    facts = page.locator(".facts")
    expect(facts).to_contain_text("Bounced for good")
    expect(facts).to_contain_text("no such number")
    expect(page.locator("main")).to_contain_text("Bounced for good, as the provider reported at")

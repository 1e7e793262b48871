"""The page of doubts: its filters are its address, its questions are clear, and a provider's export
settles what it answers, once somebody has seen what that is."""

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import SMS, World
from tests.browser.scenes import doubt_all, raw_rows

SERIOUS = {"serious", "critical"}
PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1280, height=800)


@pytest.fixture
def campaign_id(world: World) -> str:
    """Two doubts that wait for a person, and two that the provider is asked about."""
    campaign_id = world.launched("Doubtful offer", 4)
    doubt_all(world, campaign_id)
    later = "2999-01-01 00:00:00.000000+00:00"
    with raw_rows(world) as raw:
        # A higher fence, so that a worker that is looking into them just now changes nothing.
        raw.execute(
            "UPDATE doubt_checks SET fence = fence + 100, settles = iif(o.recipient_id IN"
            " ('lead-0', 'lead-1'), 'person', 'look_up'), next_check_at = iif(o.recipient_id IN"
            " ('lead-0', 'lead-1'), NULL, ?) FROM channel_outbox o"
            " WHERE o.id = doubt_checks.outbox_id AND o.run_id = ?",
            (later, world.run_of(campaign_id)),
        )
    return campaign_id


def rows(page: Page) -> int:
    return page.locator("[data-question]").count()


def photographed(page: Page, name: str) -> None:
    """Where somebody wants to look at it."""
    if folder := os.environ.get("BROWSER_SHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_the_filters_are_the_address_and_each_doubt_puts_its_question(
    page: Page, campaign_id: str
) -> None:
    page.goto(f"/#/doubts?campaignId={campaign_id}")
    expect(page.locator("[data-question]")).to_have_count(4)
    expect(page.locator("[data-question]").first).to_contain_text(
        "Did the SMS gateway accept the message to +44770"
    )
    expect(page.locator("[data-settles=person]")).to_have_text("By a person (2)")
    page.locator("[data-settles=look_up]").click()
    expect(page.locator("[data-settles-by=look_up]")).to_have_count(2)
    expect(page.locator("[data-question]")).to_have_count(2)
    assert "settles=look_up" in page.url
    assert campaign_id in page.url
    page.reload()
    expect(page.locator("[data-question]")).to_have_count(2)
    page.get_by_label("Target", exact=True).select_option(SMS)
    expect(page.locator("[data-question]")).to_have_count(2)
    assert f"submissionTarget={SMS}" in page.url
    page.goto(f"/#/doubts?campaignId={campaign_id}&reason=nothing_like_it")
    expect(page.get_by_text("Nothing in doubt matches")).to_be_visible()
    page.goto(f"/#/doubts?campaignId={campaign_id}&settles=person")
    page.get_by_role("button", name="Resolve all matching").click()
    expect(page.get_by_text("Resolve 2 items at once")).to_be_visible()


def test_an_export_is_previewed_and_applied(
    page: Page, world: World, campaign_id: str, tmp_path: Path
) -> None:
    found = world.call("GET", f"/doubts?campaignId={campaign_id}")["items"]
    references = {each["recipientId"]: each["reference"] for each in found}
    file = tmp_path / "november.csv"
    file.write_text(
        "Ref;State;Mobile\n"
        f"{references['lead-0']};delivered;+447700000000\n"
        f"{references['lead-1']};gone astray;+447700000001\n"
        "somebody-elses;delivered;+447700000002\n"
    )
    page.goto(f"/#/doubts?campaignId={campaign_id}")
    page.locator("input[name=export]").set_input_files(str(file))
    preview = page.locator("[data-preview]")
    expect(preview).to_contain_text("november.csv: 3 rows, csv, utf-8")
    expect(preview.get_by_role("button", name="Apply 1 verdict")).to_be_visible()
    expect(preview.get_by_text("Rows that match nothing")).to_be_visible()
    photographed(page, "export-light")
    page.get_by_label("gone astray (1)").select_option("failed")
    expect(preview.get_by_text("Their worker may still be running")).to_have_count(0)
    expect(preview.get_by_role("button", name="Apply 2 verdicts")).to_be_visible()
    # A wrong column settles nothing, and says so.
    page.get_by_label("Reference", exact=True).select_option("Mobile")
    expect(preview.get_by_role("button", name="Nothing to apply")).to_be_disabled()
    page.get_by_label("Messages that are not in the export").select_option("resubmit")
    expect(preview.get_by_text("what is missing proves nothing")).to_be_visible()
    page.get_by_label("Messages that are not in the export").select_option("")
    page.get_by_label("Reference", exact=True).select_option("Ref")
    preview.get_by_role("button", name="Apply 2 verdicts").click()
    expect(page.get_by_text("2 items resolved.")).to_be_visible()
    expect(page.locator("[data-question]")).to_have_count(2)
    left = world.call("GET", f"/doubts?campaignId={campaign_id}")["items"]
    assert {each["recipientId"] for each in left} == {"lead-2", "lead-3"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_is_accessible_and_fits(
    page: Page, campaign_id: str, theme: str, size: ViewportSize
) -> None:
    page.set_viewport_size(size)
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto(f"/#/doubts?campaignId={campaign_id}")
    expect(page.locator("[data-question]")).to_have_count(4)
    photographed(page, f"doubts-{theme}-{size['width']}")
    found = Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in SERIOUS] == []
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size["width"]

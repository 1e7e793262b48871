"""Every page of the console, in a real Chromium against a real server: it draws, and it fits.

What each of them must do under contract 003 is in the scenarios beside this file.
"""

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.browser.conftest import World, sign_in
from tests.browser.scenes import barriers

PHONE = ViewportSize(width=390, height=844)


@pytest.fixture(scope="module")
def campaign_id(world: World) -> str:
    return world.launched("A finished launch")


@pytest.fixture(scope="module")
def addresses(world: World, campaign_id: str) -> dict[str, str]:
    """The address of each page, and its heading."""
    run_id = world.run_of(campaign_id)
    item = world.call("GET", f"/runs/{run_id}/outbox?limit=1")["items"][0]["outboxId"]
    return {
        "#/campaigns": "Campaigns",
        f"#/campaigns/{campaign_id}": "A finished launch",
        f"#/runs/{run_id}": "Launch run",
        f"#/runs/{run_id}?tab=log": "Launch run",
        f"#/runs/{run_id}?tab=jobs": "Launch run",
        f"#/runs/{run_id}?tab=items": "Launch run",
        f"#/runs/{run_id}?tab=certificate": "Launch run",
        f"#/items/{item}": "lead-",
        "#/doubts": "In doubt",
        "#/search": "Search",
        "#/search?q=lead-1": "Search",
        "#/people/lead-1": "lead-1",
        "#/people/nobody": "nobody",
        "#/events": "Events",
        "#/intents": "Intents",
        "#/audit": "Audit log",
        "#/workers": "Workers",
        "#/workflows": "Workflows",
        "#/workflows?tab=dry-run": "Workflows",
        "#/workflows?tab=policy": "Workflows",
        "#/targets": "Targets",
        "#/trouble": "Problems",
        "#/trouble?tab=letters": "Problems",
        "#/trouble?tab=bypasses": "Problems",
        "#/settings": "Settings",
        "#/settings?tab=suppressions": "Settings",
        "#/new": "New campaign",
        "#/nowhere": "Not found",
    }


def _drawn(page: Page, address: str, heading: str) -> None:
    page.goto(f"/{address}")
    expect(page.locator("h1")).to_contain_text(heading)
    expect(page.locator("main [aria-busy]")).to_have_count(0)
    expect(page.locator("main[data-loading]")).to_have_count(0)


def test_every_page_draws_fits_and_has_no_serious_barrier(
    page: Page, addresses: dict[str, str]
) -> None:
    problems = {}
    for address, heading in addresses.items():
        _drawn(page, address, heading)
        if found := barriers(page):
            problems[address] = found
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, address
    assert not problems


def test_every_page_fits_a_phone_in_the_dark(
    chromium: Browser, world: World, addresses: dict[str, str]
) -> None:
    context = chromium.new_context(viewport=PHONE, base_url=world.url, color_scheme="dark")
    sign_in(context, world.key)
    page = context.new_page()
    problems = {}
    for address, heading in addresses.items():
        _drawn(page, address, heading)
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, address
        if address.startswith("#/campaigns") and (found := barriers(page)):
            problems[address] = found
    assert not problems
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Targets").click()
    expect(page.locator("h1")).to_have_text("Targets")
    context.close()


def test_signing_in_takes_a_key_and_keeps_none(chromium: Browser, world: World) -> None:
    context = chromium.new_context(base_url=world.url)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("API key").fill("outrider_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("invalid")
    page.get_by_label("API key").fill(world.key)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Campaigns")
    assert world.key not in page.content()
    assert world.key not in str(page.evaluate("[{...localStorage}, {...sessionStorage}]"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    context.close()


def test_a_key_that_may_only_read_sees_no_controls(chromium: Browser, world: World) -> None:
    key = world.call("POST", "/keys", {"name": "reader", "scopes": ["read"]})["key"]
    campaign_id = world.campaign("Only looked at")
    context = chromium.new_context(base_url=world.url)
    sign_in(context, key)
    page = context.new_page()
    _drawn(page, f"#/campaigns/{campaign_id}", "Only looked at")
    expect(page.locator("[data-phase=launch]")).to_be_visible()
    expect(page.locator("[data-action]")).to_have_count(0)
    _drawn(page, "#/campaigns", "Campaigns")
    expect(page.get_by_role("link", name="New campaign")).to_have_count(0)
    expect(page.locator(".who")).to_contain_text("read-only")
    context.close()


def test_a_campaign_is_made_filled_previewed_and_started(page: Page) -> None:
    _drawn(page, "#/new", "New campaign")
    page.get_by_label("Name").fill("Made by hand")
    page.get_by_label("Audience import").uncheck()
    page.get_by_label("Body").fill("Hello {{ firstName }}")
    page.get_by_role("button", name="Create campaign").click()
    expect(page.locator("h1")).to_have_text("Made by hand")
    csv = b"id,phone,firstName\nlead-1,+447700900123,Ada\nlead-2,+447700900124,Grace\nlead-3,,Bob\n"
    page.get_by_label("Recipient file").set_input_files(
        {"name": "people.csv", "mimeType": "text/csv", "buffer": csv}
    )
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_text("3 recipients added to the audience.")).to_be_visible()
    page.get_by_label("Recipient ID").fill("lead-2")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".preview")).to_contain_text("Hello Grace")
    page.get_by_role("button", name="Count recipients").click()
    expect(page.locator(".figures")).to_contain_text(re.compile(r"2\s*Would be sent"))
    expect(page.get_by_text("All 2 messages were rendered.")).to_be_visible()
    page.get_by_role("link", name="Open campaign").click()
    page.get_by_role("button", name="Start Launch").click()
    expect(page.locator("[data-phase=launch]")).to_have_attribute("data-state", "completed")
    expect(page.locator("[data-part=sent] dd")).to_contain_text("2")
    expect(page.locator("[data-part=skipped] dd")).to_contain_text("1")


def test_a_run_can_be_viewed_at_an_earlier_event(
    page: Page, world: World, campaign_id: str
) -> None:
    run_id = world.run_of(campaign_id)
    _drawn(page, f"#/runs/{run_id}", "Launch run")
    slider = page.get_by_role("slider")
    expect(page.get_by_role("listitem").filter(has_text="Success").first).to_be_visible()
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("After that event")).to_be_visible()
    expect(page.get_by_text("No jobs started")).to_be_visible()
    assert page.url.endswith("at=0")
    page.reload()
    expect(page.get_by_text("No jobs started")).to_be_visible()
    page.get_by_role("button", name="Now").click()
    expect(page.get_by_text("No jobs started")).to_have_count(0)


def test_a_key_is_shown_once_and_revoked_after_a_question(page: Page) -> None:
    _drawn(page, "#/settings", "Settings")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("for a while")
    dialog.get_by_role("button", name="Create").click()
    expect(page.locator("[data-secret]")).to_contain_text("outrider_")
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Revoke for a while").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Revoke for a while")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Revoke key").click()
    row = page.get_by_role("row").filter(has_text="for a while")
    expect(row).to_contain_text("Revoked")


def test_theme_and_zone_are_kept(page: Page, context: BrowserContext) -> None:
    _drawn(page, "#/campaigns", "Campaigns")
    page.get_by_role("button", name="Dark").click()
    page.get_by_role("button", name="UTC").click()
    other = context.new_page()
    _drawn(other, "#/campaigns", "Campaigns")
    assert other.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(other.locator("tbody time").first).to_have_attribute("title", re.compile("UTC$"))


def test_messages_of_a_new_campaign_have_different_ids(page: Page) -> None:
    page.goto("/#/new")
    for _ in range(2):
        page.get_by_role("button", name="Add a message").click()
    page.get_by_role("button", name="Remove").first.click()
    page.get_by_role("button", name="Add a message").click()
    ids = page.get_by_label("ID", exact=True)
    expect(ids).to_have_count(3)
    assert len({ids.nth(place).input_value() for place in range(3)}) == 3


def test_signing_out_over_a_dead_line_is_not_pretended(page: Page) -> None:
    page.goto("/#/targets")
    expect(page.locator("h1")).to_have_text("Targets")
    page.route("**/session", lambda route: route.abort())
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".toast")).to_contain_text("could not be reached")
    expect(page.locator("h1")).to_have_text("Targets")


def test_the_time_zone_is_shown_in_charts_too(page: Page, world: World) -> None:
    page.goto(f"/#/campaigns/{world.launched('Told in a zone', 5)}")
    axis = page.locator(".chart-axis time").first
    expect(axis).to_be_visible()
    page.get_by_role("button", name="UTC", exact=True).click()
    told = axis.get_attribute("datetime") or ""
    expect(axis).to_have_text(told[11:19])

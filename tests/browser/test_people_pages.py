"""The pages that tell what happened to whom: search, people, events, intents, audit, workers."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import SMS, World, new_context, watched_page
from tests.browser.scenes import barriers, raw_rows

PHONE = "+447700900777"
WRITTEN = "+44 7700 900-777"


@pytest.fixture(scope="module")
def ada(world: World) -> str:
    """The campaign that reached Ada, who also had an event and an intent, and then opted out."""
    campaign_id = _campaign(world)
    _rule(world)
    lead = {"id": "ada-7", "phone": PHONE, "firstName": "Ada"}
    told = {"eventId": "quote/77", "trigger": "quote_sent", "subject": {"lead": lead}}
    world.call("POST", "/events", told)
    world.until(lambda: bool(world.call("GET", "/events/quote%2F77")["items"]))
    intent = {"intentId": "order-77", "submissionTarget": SMS,
              "payload": {"to": PHONE, "message": "On its way"}}  # fmt: skip
    world.call("POST", "/intents", intent)
    world.until(lambda: _intent(world)["status"] == "ACCEPTED")
    world.call("POST", "/suppressions", {"channel": "sms", "addresses": [PHONE], "topic": "news"})
    return campaign_id


def _campaign(world: World) -> str:
    made = world.call("POST", "/campaigns", {
        "name": "Offer for Ada", "phases": ["launch"], "batchSize": 10,
        "audience": {"recipients": [
            {"id": "ada-7", "phone": PHONE, "email": "ada7@example.test"},
        ]},
        "messages": [{"id": "offer", "channel": "sms", "submissionTarget": SMS, "body": "Hi"}],
    })  # fmt: skip
    campaign_id = str(made["campaignId"])
    world.control(campaign_id, "start")
    world.until(lambda: world.state(campaign_id) == "completed")
    return campaign_id


def _rule(world: World) -> None:
    rule = world.call(
        "PUT", "/workflows/rules", {"trigger": "quote_sent", "channel": "sms", "audience": "lead"}
    )
    world.call("PUT", "/workflows/steps", {
        "ruleId": rule["id"], "stepOrder": 1, "body": "Hi {{ lead.firstName }}",
        "submissionTarget": SMS, "recipientConfig": {"includeLeadContact": True},
    })  # fmt: skip


def _intent(world: World) -> dict[str, str]:
    found: dict[str, str] = world.call("GET", "/intents/order-77")
    return found


def test_a_search_finds_a_person_from_the_keyboard_and_shows_their_story(
    page: Page, ada: str
) -> None:
    page.goto(f"/#/campaigns/{ada}")
    expect(page.locator("h1")).to_have_text("Offer for Ada")
    page.keyboard.press("/")
    page.keyboard.type(WRITTEN)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Search")
    hit = page.locator(".hit")
    expect(hit).to_have_count(1)
    hit.get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(PHONE)
    expect(page.locator("main")).to_contain_text("Opted out: SMS, news.")
    entries = page.locator(".story-entry")
    kinds = ["suppression", "item", "item", "event", "item"]
    expect(entries).to_have_count(len(kinds))
    shown = [entries.nth(place).get_attribute("data-kind") for place in range(len(kinds))]
    assert sorted(map(str, shown)) == sorted(kinds)
    assert shown[0] == "suppression"
    expect(entries.filter(has_text="Offer for Ada")).to_contain_text("Sent")
    expect(page.get_by_role("link", name="ada7@example.test")).to_be_visible()
    page.get_by_role("link", name="Offer for Ada").click()
    expect(page.locator("h1")).to_have_text("ada-7")
    page.get_by_role("link", name=PHONE).click()
    expect(page.locator("h1")).to_have_text(PHONE)


def test_the_key_of_the_search_is_a_letter_where_somebody_types(page: Page) -> None:
    page.goto("/#/new")
    page.get_by_label("Name").fill("a")
    page.keyboard.type("/b")
    expect(page.get_by_label("Name")).to_have_value("a/b")
    expect(page.locator("h1")).to_have_text("New campaign")


def test_the_search_is_at_hand_on_a_phone(chromium: Browser, world: World, ada: str) -> None:
    with new_context(chromium, world, width=390) as context, watched_page(context) as page:
        page.goto("/#/targets")
        expect(page.locator("h1")).to_have_text("Targets")
        page.locator(".top").get_by_role("link", name="Search").click()
        field = page.locator("main").get_by_label("Search everything")
        expect(field).to_be_focused()
        field.fill("order-77")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="order-77").click()
        expect(page.locator("h1")).to_have_text("order-77")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        # Nothing is found by a part of an address, and that is said.
        page.goto("/#/search?q=%2B44770090077")
        expect(page.locator("main")).to_contain_text("Addresses and IDs have to be complete")
        page.goto(f"/#/search?q={ada}")
        page.get_by_role("link", name="Offer for Ada").click()
        expect(page.locator("h1")).to_have_text("Offer for Ada")


def test_an_event_shows_its_routes_and_why_and_its_messages(page: Page, ada: str) -> None:
    del ada
    page.goto("/#/events")
    page.get_by_role("link", name="quote/77").click()
    expect(page.locator("h1")).to_have_text("quote/77")
    routes = page.get_by_role("region", name="Routes")
    expect(routes.get_by_role("row").filter(has_text="sms")).to_contain_text("Steps")
    # The legacy sender for e-mail has no target in this registry: the page says so.
    expect(routes.get_by_role("row").filter(has_text="email")).to_contain_text(
        "no submission target"
    )
    expect(page.get_by_role("region", name="Messages")).to_contain_text(PHONE)
    page.goto("/#/events?status=received")
    expect(page.locator("main")).to_contain_text("No matching events")


def test_intents_are_listed_filtered_and_shown(page: Page, ada: str) -> None:
    del ada
    page.goto("/#/intents")
    page.get_by_role("link", name="Accepted").click()
    page.get_by_role("link", name="order-77").click()
    expect(page.locator("h1")).to_have_text("order-77")
    expect(page.get_by_role("region", name="Attempts").get_by_role("row")).to_have_count(2)
    expect(page.locator(".facts")).to_contain_text(PHONE)


def test_the_audit_log_shows_the_newest_first(page: Page, world: World, ada: str) -> None:
    del ada
    world.call("POST", "/keys", {"name": "audited", "scopes": ["read"]})
    page.goto("/#/audit")
    rows = page.get_by_role("region", name="Audit log").locator("tbody tr")
    # A run that ended before may be sealed just now.
    expect(rows.filter(has_not_text="run.sealed").first).to_contain_text("key.created")
    expect(rows.filter(has_text="suppression.added").first).to_contain_text("channel: sms")
    campaign_id = world.campaign("Audited")
    world.control(campaign_id, "start")
    page.goto(f"/#/audit?campaignId={campaign_id}")
    expect(page.locator("main")).to_contain_text("Showing only one campaign.")
    expect(rows.first).to_be_visible()
    expect(rows.filter(has_text="suppression.added")).to_have_count(0)


def test_an_alert_leads_to_what_to_do(page: Page, world: World) -> None:
    with raw_rows(world) as raw:
        raw.execute(
            "INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message,"
            " detail, raised_at, last_seen_at) SELECT '01a00000-0000-7000-8000-00000000a1e7',"
            " tenant_id, id, 'TARGET_DOWN', 'critical', 'sms.test', 'refused', '{}',"
            " '2026-03-01T10:00:00.000000Z', '2026-03-01T10:00:00.000000Z' FROM workspaces LIMIT 1"
        )
    try:
        page.goto("/#/trouble")
        row = page.get_by_role("row").filter(has_text="sms.test")
        expect(row).to_contain_text("Critical")
        row.get_by_role("link", name="What to do").click()
        expect(page.locator("h2#target_down")).to_be_in_viewport()
        expect(page.locator("main")).to_contain_text("outrider target reset T")
        assert not barriers(page)
    finally:
        with raw_rows(world) as raw:
            raw.execute("UPDATE alerts SET resolved_at = last_seen_at WHERE code = 'TARGET_DOWN'")


WORKERS = {"items": [
    {"workerId": "host-1/a/4711", "role": "worker", "host": "host-1", "pid": 4711,
     "version": "0.9", "engine": "local", "targets": None, "mode": None, "isAlive": True,
     "startedAt": "2026-03-01T10:00:00Z", "seenAt": "2026-03-01T10:00:00Z",
     "holds": [{"runId": None, "submissionTarget": SMS, "jobs": 2,
                "since": "2026-03-01T10:00:00Z", "leaseEndsAt": None}]},
    {"workerId": "host-2/b/17", "role": "worker", "host": "host-2", "pid": 17,
     "version": "0.8", "engine": "local", "targets": [SMS], "mode": "realtime",
     "isAlive": False, "startedAt": "2026-03-01T10:00:00Z", "seenAt": "2026-03-01T10:00:00Z",
     "holds": []},
], "next": None}  # fmt: skip


def test_workers_are_shown_with_what_they_hold(page: Page) -> None:
    page.route("**/api/v2/workers", lambda route: route.fulfill(json=WORKERS))
    page.goto("/#/workers")
    expect(page.get_by_role("row").filter(has_text="host-1")).to_contain_text("Alive")
    expect(page.get_by_role("row").filter(has_text="host-1")).to_contain_text("2 lanes")
    expect(page.get_by_role("row").filter(has_text="host-2")).to_contain_text("Silent")
    expect(page.locator("main")).to_contain_text("Different versions are running: 0.8, 0.9.")


@pytest.fixture
def away(page: Page) -> Iterator[list[bool]]:
    """Whether the server cannot be reached; it can once the list is empty."""
    is_away = [True]

    def answer(route: Route) -> None:
        if is_away:
            route.abort()
        else:
            route.continue_()

    page.route(re.compile("/(api/v2|session)"), answer)
    yield is_away
    is_away.clear()


def test_a_page_opened_while_the_server_is_down_recovers_automatically(
    page: Page, away: list[bool]
) -> None:
    page.goto("/#/targets")
    expect(page.locator("main")).to_contain_text("Trying again automatically.")
    expect(page.get_by_label("API key")).to_have_count(0)
    away.clear()
    expect(page.locator("h1")).to_have_text("Targets")
    expect(page.locator("main")).to_contain_text(SMS)
    away.append(True)
    page.goto("/#/events")
    expect(page.locator("main")).to_contain_text("Trying again automatically.")
    away.clear()
    expect(page.locator("h1")).to_have_text("Events")
    expect(page.locator(".filters")).to_be_visible()


def test_a_tab_of_a_run_says_that_it_loads(page: Page, world: World, ada: str) -> None:
    run_id = world.run_of(ada)
    held: list[Route] = []
    page.route(re.compile(r"/runs/[^/]+/certificate"), lambda route: held.append(route))
    page.goto(f"/#/runs/{run_id}")
    expect(page.get_by_role("slider")).to_be_visible()
    page.get_by_role("link", name="Certificate").click()
    expect(page.locator("main [aria-busy=true]")).to_be_visible()
    expect(page.get_by_role("link", name="Certificate")).to_have_attribute("aria-current", "true")
    held[0].continue_()
    expect(page.locator("[data-certificate=true]")).to_be_visible()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)


def test_results_and_state_of_a_run_move_with_its_slider(
    page: Page, world: World, ada: str
) -> None:
    run_id = world.run_of(ada)
    page.goto(f"/#/runs/{run_id}")
    sent = page.locator("[data-part=sent] dd")
    expect(sent).to_contain_text("1")
    expect(page.locator(".title-row .pill").first).to_have_attribute("data-state", "completed")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(page.locator("main")).to_contain_text("As it was after event #0")
    expect(sent).to_have_text("0")
    expect(page.locator("[data-part=waiting] dd")).to_contain_text("1")
    expect(page.locator(".title-row .pill").first).not_to_have_attribute("data-state", "completed")
    page.get_by_role("button", name="Now").click()
    expect(sent).to_contain_text("1")


def test_the_servers_own_worker_is_on_the_page(page: Page) -> None:
    page.goto("/#/workers")
    row = page.get_by_role("region", name="Workers").locator("tbody tr").first
    expect(row).to_contain_text("Alive")
    expect(row).to_contain_text("process")


def test_a_rejected_intent_is_sent_again_as_a_new_one_after_a_question(
    page: Page, world: World
) -> None:
    payload = {"to": "nobody", "message": "Hi"}
    path = "/intents/again%2F1"
    rejected = {"intentId": "again/1", "submissionTarget": SMS, "payload": payload}
    world.call("POST", "/intents", rejected)
    is_rejected = lambda: bool(world.call("GET", path)["status"] == "REJECTED")  # noqa: E731
    world.until(is_rejected)
    page.goto(f"/#{path}")
    page.get_by_role("button", name="Send again").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("Send this message again?")
    asked.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("again/1~2")
    page.get_by_role("link", name="again/1", exact=True).click()
    expect(page.get_by_role("link", name="again/1~2")).to_be_visible()
    expect(page.get_by_role("button", name="Send again")).to_have_count(0)

"""Texts of strangers on every page that shows them: as they were written, and as nothing but text.

What a recipient, a client, a provider or an operator may write is markup, script, a template, a
word without an end, or turns the line around. No page runs, follows, injects or spills any of it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SMS, World, new_context, running_world, watched_page
from tests.browser.scenes import doubt_all, raw_rows

ATTACK = (
    "<img src=x onerror=hacked=1>\"><script>hacked=2</script>'-hacked-'{{7*7}}${hacked}"
    "<svg/onload=hacked=3>javascript:hacked=4 \u202eesrever\u202c \u200bend"
)
LONG_WORD = "W" * 5_000
LONG_NAME = ATTACK + "W" * (200 - len(ATTACK))
KEY_NAME = "<script>hacked=5</script>{{7*7}}" + "W" * 150
HOSTILE_TARGET = "sms<img src=x onerror=hacked=1>" + "w" * 100

WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""
INJECTED = """() => [...document.querySelectorAll(
  "img[src=x], main script, [onerror], [onload], iframe, object, embed, a[href^='javascript' i]"
)].map((element) => element.outerHTML)"""


@dataclass
class Planted:
    world: World
    campaign_id: str
    run_id: str
    doubted_run: str
    item_id: str
    doubted_item: str
    rule_id: str


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    folder = tmp_path_factory.mktemp("hostile")
    with running_world(folder, more_targets=[HOSTILE_TARGET]) as world:
        campaign_id = _campaign(world)
        doubted = _campaign(world)
        doubt_all(world, doubted)
        run_id, doubted_run = world.run_of(campaign_id), world.run_of(doubted)
        item_id, doubted_item = (
            world.call("GET", f"/runs/{run}/outbox?limit=1")["items"][0]["outboxId"]
            for run in (run_id, doubted_run)
        )
        world.call("POST", "/keys", {"name": KEY_NAME, "scopes": ["read"]})
        _plant_rows(world, campaign_id, run_id)
        rule_id = _workflow(world)
        yield Planted(world, campaign_id, run_id, doubted_run, item_id, doubted_item, rule_id)


def _campaign(world: World) -> str:
    person = {"id": LONG_NAME, "phone": "+447700900123", "attributes": {"firstName": ATTACK}}
    message = {
        "id": LONG_NAME, "channel": "sms", "submissionTarget": HOSTILE_TARGET,
        "subject": ATTACK.replace("{{7*7}}", ""),
        "body": "Hi {{ firstName }} " + LONG_WORD,
    }  # fmt: skip
    made = world.call(
        "POST",
        "/campaigns",
        {
            "name": LONG_NAME, "phases": ["launch"], "audience": {"recipients": [person]},
            "messages": [message],
        },
    )  # fmt: skip
    campaign_id = str(made["campaignId"])
    world.control(campaign_id, "start")
    world.until(lambda: world.state(campaign_id) == "completed")
    return campaign_id


def _workflow(world: World) -> str:
    step = {
        "submissionTarget": SMS, "body": ATTACK.replace("{{7*7}}", "") + LONG_WORD,
        "recipientConfig": {"includeLeadContact": True},
    }  # fmt: skip
    rule = {"trigger": "quote_sent", "channel": "sms", "audience": "lead", "enabled": True}
    made = world.call("PUT", "/workflows/rules", rule)
    world.call("POST", "/workflows/steps", {**step, "ruleId": made["id"], "stepOrder": 1})
    return str(made["id"])


def _plant_rows(world: World, campaign_id: str, run_id: str) -> None:
    """What providers, the bus and operators wrote, without waiting for it to happen."""
    mine = "SELECT ?, tenant_id, workspace_id, {} FROM campaigns WHERE id = ?"
    bypass = json.dumps(
        {
            "phase": "launch", "from_status": "paused", "to_status": "completed",
            "caller": ATTACK, "reason": LONG_WORD + ATTACK,
        }
    )  # fmt: skip
    with raw_rows(world) as raw:
        raw.execute(
            "UPDATE channel_outbox SET error = ?, reason = ?, provider_message_id = ?",
            (ATTACK + LONG_WORD, ATTACK, ATTACK),
        )
        raw.execute("UPDATE job_queue SET last_error = ?", (ATTACK + LONG_WORD,))
        raw.execute(
            "INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message,"
            " detail, raised_at, last_seen_at) "
            + mine.format("?, 'critical', ?, ?, '{}', created_at, created_at"),
            ("alert", ATTACK, LONG_NAME, ATTACK + LONG_WORD, campaign_id),
        )
        raw.execute(
            "INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id,"
            " run_seq, attempts, error, created_at) " + mine.format("?, ?, 1, 9, ?, created_at"),
            ("letter", ATTACK, run_id, ATTACK + LONG_WORD, campaign_id),
        )
        raw.execute(
            "INSERT INTO artifacts (id, tenant_id, workspace_id, campaign_id, run_id, name,"
            " media_type, reference, sha256, size_bytes, created_at) "
            + mine.format("id, ?, ?, 'text/html', 'gone', hex(zeroblob(32)), 1, created_at"),
            ("artifact", run_id, ATTACK, campaign_id),
        )
        raw.execute(
            "INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, actor,"
            " event, detail, created_at) "
            + mine.format("id, ?, 'phase.transition_bypassed', ?, created_at"),
            ("bypass", ATTACK, bypass, campaign_id),
        )
        raw.execute(
            "INSERT INTO suppressions (tenant_id, workspace_id, channel, address, reason,"
            " created_at) SELECT tenant_id, workspace_id, 'sms', ?, ?, created_at FROM campaigns"
            " WHERE id = ?",
            (ATTACK.lower(), ATTACK, campaign_id),
        )


@pytest.fixture
def page(planted: Planted, chromium: Browser) -> Iterator[Page]:
    with new_context(chromium, planted.world, width=390) as context:
        context.add_init_script(WATCH)
        with watched_page(context) as page:
            page.on("dialog", lambda dialog: pytest.fail(dialog.message))
            yield page


def _visit(page: Page, address: str, *shown: str) -> None:
    """The page shows these texts word for word, and nothing of them is anything but text."""
    page.evaluate("(address) => { location.hash = address; }", address)
    expect(page.locator("main [aria-busy]")).to_have_count(0)
    for text in shown:
        expect(page.locator("#app")).to_contain_text(text)
    _unharmed(page, address)


def _unharmed(page: Page, address: str) -> None:
    assert page.evaluate("typeof window.hacked") == "undefined", address
    assert page.evaluate("violations") == [], address
    assert page.evaluate(INJECTED) == [], address
    assert "49" not in page.locator("h1").inner_text()
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{address} spills at {width} px"


def test_every_page_shows_what_strangers_wrote_as_text(page: Page, planted: Planted) -> None:
    page.goto("/")
    expect(page.locator("h1")).to_have_text("Campaigns")
    run, doubted_run = f"#/runs/{planted.run_id}", f"#/runs/{planted.doubted_run}"
    _visit(page, "#/campaigns?q=onerror", LONG_NAME)
    _visit(page, f"#/campaigns/{planted.campaign_id}", LONG_NAME, ATTACK, "Hi {{ firstName }}")
    _visit(page, run, "Launch run", LONG_NAME)
    _visit(page, f"{run}?tab=log", "RunCompleted")
    _visit(page, f"{run}?tab=jobs", ATTACK + LONG_WORD, HOSTILE_TARGET)
    _visit(page, f"{run}?tab=items", LONG_NAME, ATTACK)
    _visit(page, f"{run}?tab=certificate", "Certificate")
    _visit(page, doubted_run, "Launch run")
    _visit(page, f"#/items/{planted.item_id}", LONG_NAME, ATTACK + LONG_WORD, ATTACK)
    _visit(page, f"#/items/{planted.doubted_item}", LONG_NAME, "In doubt")
    _visit(page, "#/doubts", LONG_NAME, ATTACK + LONG_WORD)
    _visit(page, "#/workflows", "quote_sent")
    _visit(page, f"#/workflows/{planted.rule_id}", LONG_WORD, "<script>hacked=2</script>")
    _visit(page, "#/targets", HOSTILE_TARGET)
    _visit(page, "#/trouble", ATTACK + LONG_WORD)
    _visit(page, "#/trouble?tab=letters", ATTACK + LONG_WORD, ATTACK)
    _visit(page, "#/trouble?tab=bypasses", ATTACK, LONG_WORD)
    _visit(page, "#/settings", KEY_NAME)
    _visit(page, "#/settings?tab=suppressions", ATTACK)
    _visit(page, "#/new", HOSTILE_TARGET)


def test_dialogs_previews_and_toasts_show_them_as_text(page: Page, planted: Planted) -> None:
    page.goto("/#/doubts")
    page.locator("tbody").get_by_role("button", name="Resolve").first.click()
    expect(page.get_by_role("dialog").locator("h2")).to_contain_text(LONG_NAME)
    _unharmed(page, "a dialog")
    page.keyboard.press("Escape")
    page.goto(f"/#/new?campaign={planted.campaign_id}")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".preview")).to_contain_text("Hi " + ATTACK)
    _unharmed(page, "a preview")
    page.route(
        "**/doubts/resolve",
        lambda route: route.fulfill(status=500, json={"error": {"message": ATTACK + LONG_WORD}}),
    )
    page.goto("/#/doubts")
    page.get_by_role("button", name="Resolve all matching").click()
    expect(page.locator(".toast")).to_contain_text(ATTACK)
    _unharmed(page, "a toast")


def test_made_up_addresses_lead_nowhere_bad(page: Page, planted: Planted) -> None:
    page.goto("/")
    for address in (
        "#/constructor", "#/__proto__", "#/<img src=x onerror=hacked=1>", "#javascript:hacked=1",
        f"#/campaigns/{planted.campaign_id}?phase=constructor", "#/trouble?tab=constructor",
        "#/campaigns/..%2F..%2Fkeys", "#/campaigns/%E0%A4%A", "#/workflows?tab=__proto__",
    ):  # fmt: skip
        page.evaluate("(address) => { location.hash = address; }", address)
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        expect(page.locator("h1")).not_to_have_text("")
        expect(page.locator("main")).not_to_contain_text("[object")
        _unharmed(page, address)

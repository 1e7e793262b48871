"""U3: after stop, retry and rerun, each message has one outcome, the same wherever it is said."""

import csv
import io
import re
import urllib.request
from collections import Counter

from playwright.sync_api import Page, expect

from tests.browser.conftest import SMS, World
from tests.browser.scenes import expect_state, open_campaign, stage

PEOPLE = 150
WITHOUT_PHONE = 3
PARTS = ("intended", "waiting", "inDoubt", "sent", "failed", "skipped")
SLOW_MS = 2_000
"""Forty at a time: there is time to stop it before the second part."""


def created(world: World) -> str:
    people = [
        {"id": f"lead-{n}", **({"phone": f"+44771{n:07}"} if n >= WITHOUT_PHONE else {})}
        for n in range(PEOPLE)
    ]
    message = {"id": "offer", "channel": "sms", "submissionTarget": SMS, "body": "Hi"}
    body = {"name": "Counted everywhere", "phases": ["launch", "report"], "batchSize": 10,
            "audience": {"recipients": people}, "messages": [message]}  # fmt: skip
    return str(world.call("POST", "/campaigns", body)["campaignId"])


def by_api(world: World, campaign_id: str) -> dict[str, int]:
    outcome = world.status(campaign_id)["phases"]["launch"]["outcome"]
    return {part: outcome[part] for part in PARTS}


def by_page(page: Page, campaign_id: str) -> dict[str, int]:
    """As the first ledger of the launch says it: that of all runs."""
    page.goto("/#/campaigns")
    page.goto(f"/#/campaigns/{campaign_id}?phase=launch")
    ledger = page.locator(".ledger").first
    expect(ledger).to_contain_text(f"of {PEOPLE} intended")
    found = {}
    for part in PARTS:
        words = ledger.locator(f"[data-part={part}] dd").inner_text()
        found[part] = int(re.findall(r"^\d+", words)[0])
    return found


def files(world: World, campaign_id: str) -> dict[str, str]:
    """The newest of each name."""
    kept = {}
    for each in world.call("GET", f"/campaigns/{campaign_id}/artifacts")["items"]:
        url = f"{world.url}/api/v2/artifacts/{each['id']}/content"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {world.key}"})
        with urllib.request.urlopen(request) as answer:
            kept[each["name"]] = answer.read().decode()
    return kept


def by_report(text: str) -> dict[str, int]:
    found = re.findall(r"<b>(\d+)</b><span>([a-z ]+)</span>", text)
    return {"inDoubt" if name == "in doubt" else name: int(count) for count, name in found}


def by_csv(text: str) -> dict[str, int]:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len({row["recipientId"] for row in rows}) == len(rows), "one line per message"
    counted = Counter(row["status"] for row in rows)
    open_items = counted["queued"]
    return {"intended": len(rows), "waiting": open_items, "inDoubt": 0,
            **{part: counted[part] for part in ("sent", "failed", "skipped")}}  # fmt: skip


def by_list(page: Page, campaign_id: str) -> list[str]:
    page.goto("/#/campaigns")
    cells = page.locator(f"tr[data-key='{campaign_id}'] td")
    expect(cells.first).to_be_visible()
    return cells.all_inner_texts()


def assert_same_everywhere(page: Page, world: World, campaign_id: str) -> dict[str, int]:
    expected = by_api(world, campaign_id)
    assert by_page(page, campaign_id) == expected
    kept = files(world, campaign_id)
    assert by_report(kept["report.html"]) == expected
    assert by_csv(kept["results.csv"]) == expected
    listed = by_list(page, campaign_id)
    assert [int(cell) for cell in listed[4:7]] == [
        expected[part] for part in ("sent", "failed", "inDoubt")
    ]
    return expected


def test_totals_are_the_same_on_the_page_in_report_csv_and_api_after_stop_retry_and_rerun(
    page: Page, world: World
) -> None:
    campaign_id = created(world)
    world.faults(latencyMs=SLOW_MS)
    try:
        world.control(campaign_id, "start")
        world.until(lambda: by_api(world, campaign_id)["sent"] > 0)
        world.call("POST", f"/campaigns/{campaign_id}/stop")
        open_campaign(page, campaign_id)
        expect(stage(page).locator(".pill")).to_have_text("Stopped")
    finally:
        world.faults(latencyMs=0)
    world.until(lambda: world.call("GET", f"/runs/{world.run_of(campaign_id)}")["finishedAt"])
    stopped = by_api(world, campaign_id)
    assert 0 < stopped["sent"] < PEOPLE - WITHOUT_PHONE

    world.control(campaign_id, "retry")
    world.until(lambda: world.state(campaign_id) == "completed")
    assert world.status(campaign_id)["phases"]["launch"]["runs"] == 2
    _report(page, world, campaign_id, "start")
    final = {"intended": PEOPLE, "waiting": 0, "inDoubt": 0, "sent": PEOPLE - WITHOUT_PHONE,
             "failed": 0, "skipped": WITHOUT_PHONE}  # fmt: skip
    assert assert_same_everywhere(page, world, campaign_id) == final

    path = f"/campaigns/{campaign_id}/phases/launch/rerun"
    world.call("POST", path, {"scope": "all", "confirm": True})
    world.until(lambda: world.state(campaign_id) == "completed")
    _report(page, world, campaign_id, "rerun")
    assert assert_same_everywhere(page, world, campaign_id) == final


def _report(page: Page, world: World, campaign_id: str, action: str) -> None:
    before = len(world.call("GET", f"/campaigns/{campaign_id}/artifacts")["items"])
    world.control(campaign_id, action, "report")
    world.until(
        lambda: (
            world.state(campaign_id, "report") == "completed"
            and len(world.call("GET", f"/campaigns/{campaign_id}/artifacts")["items"]) > before
        )
    )
    open_campaign(page, campaign_id, "?phase=report")
    expect_state(page, "completed", "report")
    # Only messages are sent: what another phase has dealt with is done.
    success = page.locator(".ledger [data-part=sent] dt").first
    expect(success).to_have_text("Done")

"""Ten thousand campaigns and a run of very many items: pages show a page of them, and ask for one.

The rows are put into the server's file by a few statements. A million of them are most of a
gigabyte: that many are tried with OUTRIDER_BROWSER_ITEMS=1000000, which changes no bound here.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.conftest import World, new_context, running_world, watched_page
from tests.browser.scenes import expect_live, raw_rows, say

CAMPAIGNS = 10_000
ITEMS = int(os.environ.get("OUTRIDER_BROWSER_ITEMS", "100000"))
ITEMS_A_JOB = 500
ROWS_A_PAGE = 50
REQUESTS_MOST = 12
ANSWER_MOST_BYTES = 300_000
ELEMENTS_MOST = 6_000
PAINT_MOST_MS = 30_000
EVENTS_TOLD = 4_000
FEED_MOST = 30
GROWTH_MOST_BYTES = 12_000_000
KEYS = "[...document.querySelectorAll('tbody tr')].map((row) => row.dataset.key)"


@dataclass
class Large:
    world: World
    campaign_id: str
    run_id: str


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    with running_world(tmp_path_factory.mktemp("large")) as world:
        campaign_id = world.launched("A million", ITEMS_A_JOB)
        run_id = world.run_of(campaign_id)
        world.server.stop()
        _grow(world, campaign_id, run_id)
        world.url = world.server.start()["url"]
        yield Large(world, campaign_id, run_id)


def _grow(world: World, campaign_id: str, run_id: str) -> None:
    jobs = ITEMS // ITEMS_A_JOB
    with raw_rows(world) as raw:
        # Nobody else has it open, and a test's file need not outlive the machine.
        raw.execute("PRAGMA journal_mode = OFF")
        raw.execute("PRAGMA synchronous = OFF")
        raw.execute("PRAGMA cache_size = -400000")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
        _clone(raw.execute, "campaigns", numbers.format(CAMPAIGNS),
               {"id": "printf('01890000-0000-7000-8000-%012x', i)", "name": "'Campaign ' || i"},
               f"id = '{campaign_id}'")  # fmt: skip
        _clone(raw.execute, "campaign_phases", numbers.format(CAMPAIGNS),
               {"campaign_id": "printf('01890000-0000-7000-8000-%012x', i)"},
               f"campaign_id = '{campaign_id}'")  # fmt: skip
        job = raw.execute("SELECT id FROM job_queue WHERE run_id = ? LIMIT 1", (run_id,)).fetchone()
        _clone(raw.execute, "job_queue", numbers.format(jobs),
               {"id": "printf('01890000-0000-7000-9000-%012x', i)",
                "item_count": ITEMS_A_JOB, "sent": ITEMS_A_JOB, "failed": 0, "skipped": 0},
               f"id = '{job[0]}'")  # fmt: skip
        item = raw.execute(
            "SELECT id FROM channel_outbox WHERE run_id = ? LIMIT 1", (run_id,)
        ).fetchone()
        _clone(raw.execute, "channel_outbox", numbers.format(ITEMS),
               {"id": "printf('01890000-0000-7000-a000-%012x', i)",
                "job_id": f"printf('01890000-0000-7000-9000-%012x', 1 + (i - 1) / {ITEMS_A_JOB})",
                "idempotency_key": "CAST(printf('%032d', i) AS BLOB)",
                "recipient_id": "'many-' || i"},
               f"id = '{item[0]}'")  # fmt: skip
        raw.execute(
            "UPDATE campaign_runs SET intended = intended + ? WHERE id = ?", (ITEMS, run_id)
        )


def _clone(
    execute: Callable[[str], object],
    table: str,
    numbers: str,
    changes: dict[str, object],
    which: str,
) -> None:
    """The one row of the table again and again, with these columns changed."""
    columns = [row[1] for row in execute(f"PRAGMA table_info({table})")]  # type: ignore[attr-defined]
    values = ", ".join(str(changes.get(column, f"t.{column}")) for column in columns)
    execute(
        f"INSERT INTO {table} ({', '.join(columns)}) {numbers}"
        f" SELECT {values} FROM n CROSS JOIN {table} t WHERE t.{which}"
    )


@pytest.fixture
def page(large: Large, chromium: Browser) -> Iterator[Page]:
    with new_context(chromium, large.world) as context, watched_page(context) as page:
        yield page


@dataclass
class Cost:
    requests: int
    largest_bytes: int
    elements: int
    milliseconds: float


def _open(page: Page, address: str, row: str) -> Cost:
    """What the page asked for until its first rows were there."""
    answers: list[Response] = []

    def note(answer: Response) -> None:
        if "/api/v2/" in answer.url and "/stream" not in answer.url:
            answers.append(answer)

    page.evaluate("location.hash = '#/nowhere'")
    expect(page.get_by_text("Page not found")).to_be_visible()
    page.on("response", note)
    began = page.evaluate("performance.now()")
    page.evaluate("(address) => { location.hash = address; }", address)
    expect(page.locator(row).first).to_be_visible(timeout=PAINT_MOST_MS)
    milliseconds = page.evaluate("performance.now()") - began
    page.remove_listener("response", note)
    sizes = [len(answer.body()) for answer in answers]
    elements = page.evaluate("document.querySelectorAll('*').length")
    return Cost(len(answers), max(sizes), elements, milliseconds)


def test_every_first_page_is_bounded(page: Page, large: Large) -> None:
    page.goto("/#/targets")
    expect(page.locator("h1")).to_have_text("Targets")
    run = f"#/runs/{large.run_id}"
    pages = {
        "campaigns": ("#/campaigns", "main tbody tr"),
        "found": ("#/campaigns?q=campaign+99", "main tbody tr"),
        "filtered": ("#/campaigns?state=completed", "main tbody tr"),
        "campaign": (f"#/campaigns/{large.campaign_id}", "[data-part=sent] dd"),
        "run": (run, ".step"),
        "log": (f"{run}?tab=log", "[aria-label='Event log'] tbody tr"),
        "jobs": (f"{run}?tab=jobs", "[aria-label=Jobs] tbody tr"),
        "items": (f"{run}?tab=items", "[aria-label=Items] tbody tr"),
        "sent items": (f"{run}?tab=items&status=sent", "[aria-label=Items] tbody tr"),
        "one item": (f"{run}?tab=items&recipientId=lead-7", "[aria-label=Items] tbody tr"),
    }
    for name, (address, row) in pages.items():
        cost = _open(page, address, row)
        print(name, cost)
        assert cost.requests <= REQUESTS_MOST, name
        assert cost.largest_bytes <= ANSWER_MOST_BYTES, name
        assert cost.elements <= ELEMENTS_MOST, name
        assert page.locator("main tbody").count() == 0 or all(
            each.locator("tr").count() <= 4 * ROWS_A_PAGE for each in page.locator("tbody").all()
        )


def test_lists_page_forward_and_back_to_the_first(page: Page, large: Large) -> None:
    for address in ("#/campaigns", f"#/runs/{large.run_id}?tab=items"):
        page.goto(f"/{address}")
        rows = page.locator("main tbody").last.locator("tr")
        expect(rows).to_have_count(ROWS_A_PAGE)
        seen = [page.evaluate(KEYS)]
        for _ in range(2):
            page.locator("[data-next]").click()
            expect(rows.first).not_to_have_attribute("data-key", seen[-1][0])
            seen.append(page.evaluate(KEYS))
        assert len({key for keys in seen for key in keys}) == 3 * ROWS_A_PAGE
        page.reload()
        expect(rows.first).to_have_attribute("data-key", seen[-1][0])
        page.get_by_role("link", name="First page").click()
        expect(rows.first).to_have_attribute("data-key", seen[0][0])


def test_a_page_that_receives_events_for_long_stays_small(page: Page, large: Large) -> None:
    page.goto(f"/#/campaigns/{large.campaign_id}")
    expect_live(page)
    told = page.context.new_cdp_session(page)
    sequence = large.world.status(large.campaign_id)["lastSequence"]
    say(page, "phase_resumed", large.campaign_id, sequence + 1)

    def tell(first: int) -> float:
        page.evaluate(
            """async ([campaignId, first, many]) => {
              for (let sequence = first; sequence < first + many; sequence += 1) {
                const kind = sequence % 50 ? "campaign_progress" : "phase_resumed";
                const sent = sequence;
                const accounting = { intended: 1e6, waiting: 1e6 - sent, inDoubt: 0, sent,
                  failed: 0, skipped: 0 };
                const data = JSON.stringify({ type: kind, campaignId, phase: "launch", sequence,
                  timestamp: new Date(1e12 + sequence * 1000).toISOString(),
                  payload: { progressPercentage: sent / 1e4, accounting } });
                streams.at(-1).dispatchEvent(new MessageEvent(kind, { data }));
                if (sequence % 50 === 0) { await new Promise((done) => setTimeout(done)); }
              }
            }""",
            [large.campaign_id, first, EVENTS_TOLD // 2],
        )
        told.send("HeapProfiler.collectGarbage")
        return float(told.send("Runtime.getHeapUsage")["usedSize"])

    page.route("**/runs?*", lambda route: route.fulfill(json={"items": [], "next": None}))
    page.route("**/artifacts?*", lambda route: route.fulfill(json={"items": [], "next": None}))
    page.route("**/trouble", lambda route: route.abort())
    page.route("**/throughput?*", lambda route: route.abort())
    before = tell(sequence + 2)
    after = tell(sequence + 2 + EVENTS_TOLD // 2)
    expect(page.locator(".feed [data-event]")).to_have_count(FEED_MOST)
    assert after - before < GROWTH_MOST_BYTES

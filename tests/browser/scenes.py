"""What several browser tests do: a launch that takes a while, and words on a tab's stream."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.error import HTTPError

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import World

SERIOUS = {"serious", "critical"}
SLOW_MS = 1_000
MANY = 1_500
"""Forty at a time: more than half a minute, for pages on a busy machine to do what they do."""


@contextmanager
def slow_launch(
    world: World, name: str, *, recipients: int = MANY, phases: tuple[str, ...] = ("launch",)
) -> Iterator[str]:
    """A launch under way that does not end by itself while a test looks at it."""
    world.faults(latencyMs=SLOW_MS)
    campaign_id = world.campaign(name, recipients, phases=phases)
    world.control(campaign_id, "start")
    try:
        yield campaign_id
    finally:
        world.faults(latencyMs=0)
        if world.status(campaign_id)["controlPhase"] is not None:
            with suppress(HTTPError):  # It may have ended just now.
                world.call("POST", f"/campaigns/{campaign_id}/stop")
        world.until(lambda: not _waits(world, campaign_id))


def _waits(world: World, campaign_id: str) -> bool:
    phases = world.status(campaign_id)["phases"].values()
    return any(phase["accounting"] and phase["accounting"]["waiting"] for phase in phases)


def open_campaign(page: Page, campaign_id: str, query: str = "") -> Locator:
    """The stage of its launch, once the page is live."""
    page.goto(f"/#/campaigns/{campaign_id}{query}")
    expect_live(page)
    return stage(page)


def stage(page: Page, phase: str = "launch") -> Locator:
    return page.locator(f"[data-phase={phase}]")


def expect_live(page: Page) -> None:
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")


def expect_state(page: Page, state: str, phase: str = "launch") -> None:
    """As the server said it, and not only asked for."""
    expect(stage(page, phase)).to_have_attribute("data-state", state)
    expect(stage(page, phase).locator(".pill-guess")).to_have_count(0)


def expect_no_toast(page: Page) -> None:
    expect(page.locator(".toast")).to_have_count(0)


def say(page: Page, kind: str, campaign_id: str, sequence: int, **payload: Any) -> None:
    """An event on the tab's own stream, as if the server had sent it."""
    event = {
        "type": kind, "campaignId": campaign_id, "phase": "launch", "sequence": sequence,
        "timestamp": "2026-01-01T00:00:00Z", "payload": payload,
    }  # fmt: skip
    page.evaluate(
        "([kind, data]) => streams.at(-1).dispatchEvent(new MessageEvent(kind, { data }))",
        [kind, json.dumps(event)],
    )


@contextmanager
def raw_rows(world: World) -> Iterator[sqlite3.Connection]:
    """The server's own file: what no client could write, or not so many of."""
    with closing(sqlite3.connect(world.database, timeout=30)) as raw, raw:
        yield raw


def doubt_all(world: World, campaign_id: str) -> None:
    """As if the worker had gone while the calls of this launch were open."""
    run_id = world.run_of(campaign_id)
    with raw_rows(world) as raw:
        raw.execute("DROP TRIGGER IF EXISTS channel_outbox_terminal_is_final")
        raw.execute(
            "UPDATE channel_outbox SET status = 'queued', intent_status = 'PENDING',"
            " attempt_closed_at = NULL, progress = NULL, doubted_at = updated_at"
            " WHERE run_id = ?",
            (run_id,),
        )
        raw.execute(
            "UPDATE job_queue SET status = 'queued', outcome = NULL, sent = 0, run_at = NULL"
            " WHERE run_id = ?",
            (run_id,),
        )


def barriers(page: Page) -> list[str]:
    """What axe finds that would keep somebody from using the page."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


def progress_of(page: Page) -> str:
    return stage(page).locator("[data-figure=progress]").inner_text()

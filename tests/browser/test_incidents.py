"""Two incidents as somebody sees them who has the campaign's page open: in words while they last,
and over without a reload. `tests/crash/test_incidents.py` has all of them, without a browser."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import SMS, World, new_context, running_world, watched_page
from tests.browser.scenes import barriers, expect_state, open_campaign
from tests.support.broken_server import closed_port
from tests.support.first_word import FirstWord
from tests.support.moody_provider import moody_provider

PEOPLE = 3
SINCE = re.compile(r"^(now|\d+ s ago)$")
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def incident_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of this file's own: its target soon finds out that its provider is back."""
    settings = {SMS: {"breaker_failures": 1, "breaker_seconds": 1, "concurrency": 1}}
    with running_world(tmp_path_factory.mktemp("incidents"), settings=settings) as made:
        yield made


@pytest.fixture
def page(chromium: Browser, incident_world: World) -> Iterator[Page]:
    with new_context(chromium, incident_world) as context, watched_page(context) as page:
        yield page


def point_to(world: World, url: str) -> None:
    document = json.loads((world.folder / "registry.json").read_text())
    for each in document["targets"]:
        each["gatewayUrl"] = url
    world.call("PUT", "/registry", document)


def started(page: Page, world: World, name: str, record: Record) -> tuple[str, FirstWord]:
    """A launch that begins under its open page, one job for each message."""
    campaign_id = world.campaign(name, PEOPLE, batch_size=1)
    open_campaign(page, campaign_id)
    expect(blockers(page)).to_have_count(0)
    # Lost by a reload, so that what is said at the end was said by the same page.
    page.evaluate("window.isSamePage = true")
    word = FirstWord(record)
    world.control(campaign_id, "start")
    return campaign_id, word


def blockers(page: Page) -> Locator:
    return page.locator("[data-blocker]")


def expect_recovered(page: Page, world: World, campaign_id: str) -> None:
    expect_state(page, "completed")
    expect(blockers(page)).to_have_count(0)
    assert page.evaluate("window.isSamePage") is True
    assert world.status(campaign_id)["phases"]["launch"]["accounting"]["sent"] == PEOPLE


def test_a_provider_that_answers_503_is_explained_until_it_answers_again(
    page: Page, incident_world: World, record_property: Record
) -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(moody_provider(incident_world.sandbox_url)) as provider,
    ):
        url, is_down = provider
        point_to(incident_world, url)
        campaign_id, word = started(page, incident_world, "Provider answers 503", record_property)
        said = page.locator("[data-blocker=TARGET_THROTTLED]")
        expect(said).to_contain_text(f"The target {SMS}")
        word.on("page")
        expect(said.locator("time").first).to_have_text(SINCE)
        expect(said).to_contain_text("asks to retry later")
        expect(said).to_contain_text("HTTP 503")
        expect(said).to_contain_text("Nothing to do: it continues by itself.")
        assert not barriers(page)
        is_down[0] = False
        expect_recovered(page, incident_world, campaign_id)


def test_a_dead_host_is_explained_until_the_run_is_moved_to_the_corrected_address(
    page: Page, incident_world: World, record_property: Record
) -> None:
    dead = f"http://127.0.0.1:{closed_port()}"
    point_to(incident_world, dead)
    campaign_id, word = started(page, incident_world, "Registry names a dead host", record_property)
    said = page.locator("[data-blocker=TARGET_DOWN]")
    expect(said).to_contain_text(dead)
    word.on("page")
    expect(said.locator("time").first).to_have_text(SINCE)
    expect(said).to_contain_text(f"Check the provider and the address of {SMS} in the registry")
    assert not barriers(page)
    point_to(incident_world, incident_world.sandbox_url)
    run_id = incident_world.run_of(campaign_id)
    command = f"outrider run repoint {run_id}"
    expect(said.locator("code", has_text=command)).to_be_visible()

    def is_moved() -> bool:
        """A job that a worker holds at that moment stays: the command is repeated."""
        answer = incident_world.call("POST", f"/runs/{run_id}/repoint")
        return not any(each["busyJobs"] for each in answer["targets"])

    incident_world.until(is_moved)
    expect_recovered(page, incident_world, campaign_id)

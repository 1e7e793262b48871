"""One server, one provider simulator and one Chromium for all browser tests; a context per test."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support.deployment import targets_toml

ROOT_KEY = "outrider_" + "browser" * 6
START_SECONDS = 60
WAIT_SECONDS = 60
PAUSE_SECONDS = 0.05
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TERMINAL = ["invalid_request", "invalid_recipient", "invalid_message"]
SMS = "sms.realtime"
NETWORK_WORDS = ("Failed to load resource", "net::ERR_")
"""What Chromium itself logs of an answer that is no success: tests that provoke one expect it."""

RECORDED_STREAMS = """
window.streams = [];
window.EventSource = class extends EventSource {
  constructor(...given) {
    super(...given);
    window.streams.push(this);
  }
};
"""
"""Every stream that a tab opens stays a real one; a test may speak on it too."""


class Process:
    """A command of Outrider's that says on its first line where it listens."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        environment = {
            **os.environ,
            "OUTRIDER_ROOT_KEY": ROOT_KEY,
            "OUTRIDER_LOG": "json",
            # The same after a restart, whichever test that happens in: sessions rest on it.
            "OUTRIDER_SPOOL": str(self._folder / "spool"),
            "OUTRIDER_ALLOW_PRIVATE_GATEWAYS": "true",
        }
        with (self._folder / f"{self._arguments[0]}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outrider", *self._arguments, "--json"],
                cwd=self._folder, env=environment, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def stop(self) -> None:
        self._end(is_killed=False)

    def kill(self) -> None:
        self._end(is_killed=True)

    def _end(self, *, is_killed: bool) -> None:
        if self._process is None:
            return
        if is_killed:
            self._process.kill()
        else:
            self._process.terminate()
        self._process.wait(START_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


def _opened(request: urllib.request.Request) -> Any:
    """What a server refuses, it says why."""
    try:
        return urllib.request.urlopen(request, timeout=WAIT_SECONDS)
    except urllib.error.HTTPError as error:
        error.add_note(error.read().decode(errors="replace"))
        raise


@dataclass
class World:
    """A server over its own SQLite file, with a simulator of providers beside it."""

    url: str
    sandbox_url: str
    server: Process
    folder: Path
    key: str = ROOT_KEY

    @property
    def database(self) -> Path:
        return self.folder / "outrider.db"

    def call(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:
        return self.send(method, path, json.dumps(body or {}).encode(), "application/json", key)

    def send(
        self, method: str, path: str, body: bytes, media_type: str, key: str | None = None
    ) -> Any:
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": media_type}
        request = urllib.request.Request(
            f"{self.url}/api/v2{path}",
            None if method == "GET" else body,
            headers,
            method=method,
        )
        with _opened(request) as answer:
            return json.loads(answer.read() or b"null")

    def campaign(
        self,
        name: str,
        recipients: int = 20,
        *,
        phases: tuple[str, ...] = ("launch",),
        batch_size: int = 10,
        body: str = "Hi {{ firstName }}",
        **fields: Any,
    ) -> str:
        people = [
            {"id": f"lead-{n}", "phone": f"+44770{n:07}", "attributes": {"firstName": "Ada"}}
            for n in range(recipients)
        ]
        message = {
            "id": "offer",
            "channel": "sms",
            "submissionTarget": SMS,
            "body": body,
        }
        made = self.call(
            "POST",
            "/campaigns",
            {
                "name": name,
                "phases": list(phases),
                "audience": {"recipients": people},
                "messages": [message],
                "batchSize": batch_size,
                **fields,
            },
        )
        return str(made["campaignId"])

    def control(self, campaign_id: str, action: str, phase: str = "launch") -> Any:
        return self.call("POST", f"/campaigns/{campaign_id}/phases/{phase}/{action}")

    def status(self, campaign_id: str) -> Any:
        return self.call("GET", f"/campaigns/{campaign_id}/status")

    def until(self, is_so: Callable[[], bool]) -> None:
        """Waits for what only the server knows; what the page shows is waited for there."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "it never came to be"
            time.sleep(PAUSE_SECONDS)

    def launched(self, name: str, recipients: int = 20) -> str:
        campaign_id = self.campaign(name, recipients)
        self.control(campaign_id, "start")
        self.until(lambda: self.state(campaign_id) == "completed")
        return campaign_id

    def state(self, campaign_id: str, phase: str = "launch") -> str:
        return str(self.status(campaign_id)["phases"][phase]["state"])

    def run_of(self, campaign_id: str, phase: str = "launch") -> str:
        return str(self.status(campaign_id)["phases"][phase]["runId"])

    def faults(self, **faults: float | bool) -> None:
        request = urllib.request.Request(
            f"{self.sandbox_url}/sandbox/faults",
            json.dumps(faults).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS):
            pass


@contextmanager
def running_world(
    folder: Path,
    port: int = 0,
    *,
    more_targets: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, object]] | None = None,
) -> Iterator[World]:
    """`settings` are each target's in `outrider.toml`."""
    sandbox = Process(folder, "sandbox", "--port", "0", "--smtp-port", "0")
    said = sandbox.start()
    target = {
        "submissionTarget": SMS,
        "gatewayType": "sms",
        "gatewayUrl": said["http"],
        "mode": "realtime",
        "policy": "deadline",
        "maxAcceptanceSeconds": 300,
        "terminalOutcomes": TERMINAL,
    }
    targets = [{**target, "submissionTarget": name} for name in (SMS, *more_targets)]
    (folder / "registry.json").write_text(json.dumps({"targets": targets}))
    (folder / "outrider.toml").write_text(targets_toml(settings or {}))
    server = Process(folder, "serve", "--port", str(port))
    try:
        yield World(server.start()["url"], said["http"], server, folder)
    finally:
        server.stop()
        sandbox.stop()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Not for the session: while it lives, no other test of this process can have a loop."""
    expect.set_options(timeout=WAIT_SECONDS * 1000)
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("NOT TESTED: there is no Chromium; run scripts/machine.sh as root")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, world: World) -> Iterator[BrowserContext]:
    """Signed in with the root key, at 1280x800."""
    with new_context(chromium, world) as made:
        yield made


@contextmanager
def new_context(
    chromium: Browser, world: World, key: str | None = None, *, width: int = 1280
) -> Iterator[BrowserContext]:
    """A browser of its own, with its own cookies."""
    made = chromium.new_context(viewport={"width": width, "height": 800}, base_url=world.url)
    made.set_default_timeout(WAIT_SECONDS * 1000)
    made.add_init_script(RECORDED_STREAMS)
    sign_in(made, key or world.key)
    yield made
    made.close()


def sign_in(context: BrowserContext, key: str) -> None:
    answer = context.request.post("/session", data={"key": key})
    assert answer.ok, answer.text()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab; what its scripts threw, or logged as an error, fails the test."""
    with watched_page(context) as page:
        yield page


@contextmanager
def watched_page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    problems: list[str] = []

    def note(said: ConsoleMessage) -> None:
        if said.type == "error" and not any(words in said.text for words in NETWORK_WORDS):
            problems.append(said.text)

    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", note)
    yield page
    assert not problems

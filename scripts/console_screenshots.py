"""Take the console's pictures for the docs: a real server, real campaigns, light and dark.

`make screenshots` writes them to docs/images/. It needs Chromium, and takes about a minute.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
KEY = "outrider_" + "screenshots" * 4
DESK = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
FAULTS = ["--latency-ms", "180", "--fail-rate", "0.03", "--drop-rate", "0.01", "--seed", "7"]
NAMES = ("Ada", "Grace", "Barbara", "Edsger", "Katherine", "Alan", "Radia", "Tony")
WAIT_SECONDS = 120
RATE_MS = 10_000

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@dataclass
class Server:
    url: str

    def call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v2{path}",
            None if method == "GET" else json.dumps(body or {}).encode(),
            {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return json.loads(answer.read() or b"null")

    def campaign(self, name: str, recipients: int, channel: str, target: str) -> str:
        people = [
            {
                "id": f"lead-{number}",
                "email": f"lead-{number}@example.test",
                "phone": f"+44770{number:07}",
                "attributes": {"firstName": NAMES[number % len(NAMES)], "plan": "Pro"},
            }
            for number in range(1, recipients + 1)
        ]
        message = {
            "id": "offer",
            "channel": channel,
            "submissionTarget": target,
            "body": "Hi {{ firstName }}, your {{ plan }} plan is 20 % off until Sunday.",
            **({"subject": "{{ firstName }}, spring is here"} if channel == "email" else {}),
        }
        made = self.call(
            "POST",
            "/campaigns",
            {
                "name": name,
                "phases": ["audience_import", "launch", "report"],
                "audience": {"recipients": people},
                "messages": [message],
                "batchSize": 250,
            },
        )
        return str(made["campaignId"])

    def phase(self, campaign_id: str, phase: str) -> Any:
        return self.call("GET", f"/campaigns/{campaign_id}/status")["phases"][phase]

    def control(self, campaign_id: str, phase: str, action: str) -> None:
        self.call("POST", f"/campaigns/{campaign_id}/phases/{phase}/{action}")

    def go_through(self, campaign_id: str, *phases: str) -> None:
        for phase in phases:
            self.control(campaign_id, phase, "start")
            self.until(campaign_id, phase, 100)

    def until(self, campaign_id: str, phase: str, percentage: float) -> None:
        """Up to this point, or as far as it gets while some of it is in doubt."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.phase(campaign_id, phase)
            has_settled = found["accounting"] and found["accounting"]["waiting"] == 0
            if found["progressPercentage"] >= percentage or has_settled:
                return
            time.sleep(0.2)
        raise TimeoutError(phase)


@contextmanager
def outrider(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    settings = {"OUTRIDER_ROOT_KEY": KEY, "OUTRIDER_ALLOW_PRIVATE_GATEWAYS": "true"}
    with (folder / f"{arguments[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "outrider", *arguments, "--json"],
            cwd=folder, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def registry(sandbox: dict[str, Any]) -> dict[str, Any]:
    sms = {
        "submissionTarget": "sms.realtime",
        "gatewayType": "sms",
        "gatewayUrl": sandbox["http"],
        "mode": "realtime",
        "policy": "deadline",
        "maxAcceptanceSeconds": 300,
        "terminalOutcomes": ["invalid_request", "invalid_recipient", "invalid_message"],
    }
    email = {
        "submissionTarget": "email.bulk",
        "gatewayType": "smtp",
        "gatewayUrl": sandbox["smtp"],
        "mode": "batch",
        "policy": "max_attempts",
        "maxAttempts": 5,
        "terminalOutcomes": ["invalid_recipient", "message_refused"],
    }
    return {"targets": [sms, email]}


def take(browser: Browser, server: Server, name: str, address: str, theme: Theme) -> None:
    size = PHONE if name.endswith("phone") else DESK
    context = browser.new_context(
        viewport=size, base_url=server.url, color_scheme=theme, timezone_id="UTC"
    )
    context.request.post("/session", data={"key": KEY})
    page = context.new_page()
    page.goto(f"/{address}")
    expect(page.locator("main [aria-busy]")).to_have_count(0)
    if "/campaigns/" in address:
        expect(page.locator(".chart")).to_be_visible()
    if address == "#/campaigns":
        expect(page.locator("tbody").get_by_text("/s")).to_be_visible(timeout=RATE_MS)
    page.wait_for_timeout(700)  # Bars are still growing, and the stream has just opened.
    page.screenshot(path=IMAGES / f"console-{name}-{theme}.png")
    context.close()


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no Chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as temporary,
        outrider(Path(temporary), "sandbox", "--port", "0", "--smtp-port", "0", *FAULTS) as sandbox,
    ):
        folder = Path(temporary)
        (folder / "registry.json").write_text(json.dumps(registry(sandbox)))
        with outrider(folder, "serve", "--port", "0") as said, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            picture(browser, Server(said["url"]))
            browser.close()


def picture(browser: Browser, server: Server) -> None:
    welcome = server.campaign("Welcome series", 600, "sms", "sms.realtime")
    server.go_through(welcome, "audience_import", "launch", "report")
    newsletter = server.campaign("Winter newsletter", 400, "email", "email.bulk")
    server.go_through(newsletter, "audience_import", "launch")
    survey = server.campaign("Customer survey", 1500, "sms", "sms.realtime")
    server.go_through(survey, "audience_import")
    server.control(survey, "launch", "start")
    server.until(survey, "launch", 30)
    server.control(survey, "launch", "pause")
    server.campaign("Invoice reminder", 250, "email", "email.bulk")
    spring = server.campaign("Spring offer", 20_000, "sms", "sms.realtime")
    server.go_through(spring, "audience_import")
    server.control(spring, "launch", "start")
    server.until(spring, "launch", 40)
    run = server.phase(welcome, "launch")["runId"]
    for theme in THEMES:
        take(browser, server, "campaign", f"#/campaigns/{spring}", theme)
        take(browser, server, "campaigns", "#/campaigns", theme)
    for theme in THEMES:
        take(browser, server, "run", f"#/runs/{run}", theme)
        take(browser, server, "doubts", "#/doubts", theme)
    take(browser, server, "campaign-phone", f"#/campaigns/{newsletter}", "light")


if __name__ == "__main__":
    main()

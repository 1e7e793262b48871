"""`outrider run jobs`: what a phase found out, from the campaign's file to the line one reads."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.testing.launches import registry, target
from tests.cli.test_cli import answer
from tests.kernel.work.test_sender_validation import ADDRESS, GOOD, RSA
from tests.support.dkim_keys import rsa_key
from tests.support.dns_server import name_server

CAMPAIGN = {
    "name": "Offer",
    "phases": ["sender_validation", "launch"],
    "audience": {"recipients": [{"id": "lead-1", "email": "ada@example.test"}]},
    "messages": [
        {
            "id": "mail", "channel": "email", "submissionTarget": "mail.offers",
            "subject": "Offer", "body": "Hi",
        }
    ],
}  # fmt: skip
SETTINGS = f"""
public_url = "https://outrider.example"

[targets."mail.offers".options]
from = "News <news@shop.example>"
dkimSelector = "{RSA.selector}"
sendsFrom = "{ADDRESS}"

[targets."mail.offers".credentials]
dkimKey = "env:DKIM_TEST_KEY"
"""


@pytest.fixture
def nameserver() -> Iterator[str]:
    """In a thread, because each command has an event loop of its own."""
    loop, found, over = asyncio.new_event_loop(), list[str](), asyncio.Event()
    ready = threading.Event()

    async def serve() -> None:
        async with name_server(GOOD) as server:
            found.append(server.address)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def test_a_campaigns_sender_is_checked_and_what_to_do_is_shown(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameserver: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
    monkeypatch.setenv("DKIM_TEST_KEY", rsa_key().pem)
    contract = target("mail.offers", "smtp", "smtp://127.0.0.1:1")
    (tmp_path / "registry.json").write_bytes(registry(contract))
    (tmp_path / "outrider.toml").write_text(f'nameservers = ["{nameserver}"]\n{SETTINGS}')
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN))

    def invoke(*arguments: str):  # type: ignore[no-untyped-def]
        return CliRunner().invoke(app, list(arguments))

    invoke("migrate")
    campaign = answer(invoke("campaign", "create", "campaign.json", "--json"))["campaignId"]
    started = answer(invoke("campaign", "start", campaign, "--work", "--json"))
    [job] = answer(invoke("run", "jobs", started["runId"], "--json"))["items"]
    states = {each["check"]: each["state"] for each in job["result"]["findings"]}
    # Without a return path the envelope is at shop.example, whose SPF record lets nobody send.
    assert {check for check, state in states.items() if state != "passed"} == {"spf"}
    assert (job["sent"], job["failed"], job["skipped"]) == (7, 1, 0)
    shown = invoke("run", "jobs", started["runId"]).output
    assert "fail for 203.0.113.9: -all of shop.example" in shown
    assert "Let the SPF record of shop.example name 203.0.113.9." in shown

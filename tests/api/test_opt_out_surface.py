"""Opt-outs as people meet them (audit A8): the API and the command line, on real servers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.testing.launches import target
from tests.support.api_server import ApiServer, campaign, running_server

ADA = "+447700900123"
BOB = "+447700000000"
"""The first recipient of `campaign()`."""


async def ended(server: ApiServer, intent_id: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found: dict[str, Any] = await server.get(f"/intents/{intent_id}")
            if found["status"] != "PENDING":
                return found
            await asyncio.sleep(0.02)


def intent(intent_id: str, **more: object) -> dict[str, object]:
    payload = {"to": ADA, "message": "Hi"}
    return {"intentId": intent_id, "submissionTarget": "noop", "payload": payload, **more}


async def test_opt_outs_say_how_they_are_known_and_how_far_they_reach(
    database: str, tmp_path: Path
) -> None:
    """A8: source, evidence and topic on GET, POST and DELETE; intents and campaigns obey them."""
    async with running_server(tmp_path, database=database) as server:
        left = {"channel": "sms", "addresses": [ADA, BOB], "topic": "news", "evidence": "ticket 7"}
        assert (await server.post("/suppressions", left))["addresses"] == 2
        stop = {"channel": "sms", "addresses": [ADA], "source": "stop", "reason": "STOP"}
        await server.post("/suppressions", stop)
        first = await server.get("/suppressions?limit=2")
        rest = await server.get(f"/suppressions?limit=2&after={first['next']}")
        found = [*first["items"], *rest["items"]]
        assert [(each["address"], each["topic"], each["source"], each["evidence"],
                 each["includesTransactional"]) for each in found] == [
            (BOB, "news", "api", "ticket 7", False), (ADA, None, "stop", None, True),
            (ADA, "news", "api", "ticket 7", False),
        ]  # fmt: skip
        assert rest["next"] is None
        # Held back through every door, and told in contract 001's words.
        await server.post("/intents", intent("a", topic="news", transactional=True))
        told = await ended(server, "a")
        assert (told["status"], told["finalOutcome"], told["attempts"]) == (
            "REJECTED", "suppressed", [],
        )  # fmt: skip
        assert (told["topic"], told["transactional"]) == ("news", True)
        why = await server.get(f"/outbox/{told['outboxId']}/explain")
        assert "not even for transactional messages" in why["sentences"][0]
        created = await server.post("/campaigns", campaign(2, topic="news"))
        shown = await server.get(f"/campaigns/{created['campaignId']}")
        assert (shown["topic"], shown["transactional"]) == ("news", False)
        dry = await server.post(f"/campaigns/{created['campaignId']}/phases/launch/dry-run")
        assert (dry["wouldSend"], dry["skipped"]) == (1, {"suppressed": 1})
        other = await server.post("/campaigns", campaign(2, topic="billing"))
        dry = await server.post(f"/campaigns/{other['campaignId']}/phases/launch/dry-run")
        assert (dry["wouldSend"], dry["skipped"]) == (2, {})
        # One topic is lifted, then whatever is left.
        query = f"/suppressions?channel=sms&address=%2B{ADA[1:]}"
        gone = await server.request("DELETE", f"{query}&topic=news")
        assert gone.json["addresses"] == 1
        left_over = (await server.get("/suppressions"))["items"]
        assert [(each["address"], each["topic"]) for each in left_over] == [
            (BOB, "news"), (ADA, None),
        ]  # fmt: skip
        assert (await server.request("DELETE", query)).json["addresses"] == 1
        await server.post("/intents", intent("b"))
        assert (await ended(server, "b"))["status"] == "ACCEPTED"
        entries = [
            (each["event"], each["detail"])
            for each in (await server.get("/audit"))["items"]
            if each["event"].startswith("suppression.")
        ]
        assert [event for event, _ in entries] == ["suppression.added"] * 2 + [
            "suppression.removed"
        ] * 2
        assert entries[1][1] == {
            "channel": "sms", "addresses": 1, "source": "stop", "topic": None,
            "includesTransactional": True,
        }  # fmt: skip
        assert ADA not in json.dumps(entries)


async def test_an_invalid_topic_or_source_is_refused_by_name(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        for path, body, field in (
            ("/suppressions", {"channel": "sms", "addresses": [ADA], "topic": "No"}, "topic"),
            ("/suppressions", {"channel": "sms", "addresses": [ADA], "source": "hear"}, "source"),
            ("/intents", intent("a", topic="-"), "topic"),
            ("/campaigns", campaign(1, topic="UPPER"), "topic"),
        ):
            refused = await server.request("POST", path, body)
            assert refused.status == 400
            assert [each["path"] for each in refused.json["error"]["fields"]] == [field]


async def test_the_command_line_opts_out_lists_and_lifts_here_and_at_a_server(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: the same words on the command line, on a database and over HTTP."""

    async def run(*arguments: str) -> Any:
        result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.splitlines()[-1])

    noop = target("noop", "noop", "noop:")
    async with running_server(tmp_path, database=database, targets=(noop,)) as server:
        monkeypatch.setenv("OUTRIDER_KEY", server.key)
        monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
        for where in ([], ["--server", server.url]):
            done = await run(
                *where, "suppression", "add", "sms", "+44 7700 900123", "--topic", "news",
                "--source", "import", "--evidence", "old list", "--include-transactional",
            )  # fmt: skip
            assert done == {"channel": "sms", "addresses": 1, "success": True}
            [kept] = (await run(*where, "suppression", "list"))["items"]
            assert (kept["address"], kept["topic"], kept["source"], kept["evidence"]) == (
                ADA, "news", "import", "old list",
            )  # fmt: skip
            assert kept["includesTransactional"] is True
            removed = await run(*where, "suppression", "remove", "sms", ADA, "--topic", "news")
            assert removed["addresses"] == 1
            assert (await run(*where, "suppression", "list"))["items"] == []
        sent = await run(
            "--server", server.url, "intent", "submit", "a", "--target", "noop", "--payload",
            json.dumps({"to": ADA, "message": "Hi"}), "--topic", "news", "--transactional",
        )  # fmt: skip
        assert (sent["topic"], sent["transactional"]) == ("news", True)


def test_help_says_what_holds_back_transactional_messages() -> None:
    told = CliRunner().invoke(app, ["suppression", "--help"], terminal_width=200).stdout
    assert "Transactional messages are blocked only by a bounce, a complaint, a STOP" in " ".join(
        told.split()
    )

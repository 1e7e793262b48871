"""`outrider target try`: one real message, what went over the wire, and what to fix."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.bootstrap import Outrider, open_outrider
from outrider.cli.app import app
from outrider.cli.target_try import tried
from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.gateways.directory import FAMILIES
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.gateways.simulators.web_push import subscription
from outrider.gateways.wire_tap import MASK
from outrider.settings import Settings, TargetSettings
from outrider.testing import launches
from tests.support.broken_server import answering, closed_port, http, serving
from tests.support.provider_targets import DEVICE, PLANTED, TARGETS, url_of

MAIL, PHONE = "ada@example.test", "+447700900123"
TARGET = "mail.offers"
ADDRESSES = {
    Channel.EMAIL: MAIL,
    **dict.fromkeys((Channel.SMS, Channel.VOICE, Channel.WHATSAPP), PHONE),
    Channel.SOCIAL: "",
}
PUSH_TOKENS = {
    "expo": "ExponentPushToken[token-1]",
    "web_push": subscription("/web-push/1"),
    "apns": DEVICE,
}


@asynccontextmanager
async def opened(
    database: str, folder: Path, family: str, url: str, **changes: Any
) -> AsyncIterator[Outrider]:
    os.environ["PLANTED"] = PLANTED
    registry = folder / "registry.json"
    registry.write_bytes(launches.registry(launches.target(TARGET, family, url)))
    known = TARGETS[family].model_dump() | changes
    settings = Settings(
        database_url=database, registry=registry, artifacts=folder / "artifacts",
        spool=folder / "spool", targets={TARGET: TargetSettings(**known)},
    )  # fmt: skip
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        yield outrider


async def trial(outrider: Outrider, to: str = MAIL, seconds: float = 20.0) -> dict[str, Any]:
    found = await tried(outrider, TARGET, to, "Hello", None, seconds)
    assert PLANTED not in json.dumps(found)
    return found


async def sent_and_shown(database: str, folder: Path, family: str, to: str) -> None:
    async with (
        Sandbox() as sandbox,
        opened(database, folder, family, url_of(sandbox, family)) as outrider,
    ):
        found = await trial(outrider, to)
        assert (found["outcome"], found["success"], found["fix"]) == ("accepted", True, None)
        assert found["providerMessageId"]
        assert found["request"]["line"].startswith("POST /")
        assert 200 <= found["answer"]["status"] < 300
        if family not in {"sms", "push"}:
            assert MASK in f"{found['request']['line']} {found['request']['headers']}"
        # One call, and its row in the ledger.
        assert dict(sandbox.deliveries) == {found["referenceId"]: 1}
        intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, found["intentId"])
        assert (intent.status, len(attempts)) == ("ACCEPTED", 1)


@pytest.mark.parametrize("family", ["postmark", "ses", "sms"])
async def test_a_message_is_sent_and_its_request_shown_without_the_secrets(
    database: str, tmp_path: Path, family: str
) -> None:
    await sent_and_shown(database, tmp_path, family, PHONE if family == "sms" else MAIL)


@pytest.mark.parametrize("family", sorted(TARGETS.keys() - {"smtp", "noop"}))
async def test_every_familys_request_is_shown_without_the_secrets(
    tmp_path: Path, family: str
) -> None:
    to = ADDRESSES.get(FAMILIES[family].type.channel, PUSH_TOKENS.get(family, "token-1"))
    await sent_and_shown(f"sqlite:///{tmp_path / 'outrider.db'}", tmp_path, family, to)


async def test_what_the_provider_refuses_is_said_with_what_to_fix(
    database: str, tmp_path: Path
) -> None:
    refusal = {"ErrorCode": 10, "Message": f"No account for {PLANTED}."}
    async with (
        serving(answering(http(401, json.dumps(refusal).encode()))) as port,
        opened(database, tmp_path, "postmark", f"http://127.0.0.1:{port}") as outrider,
    ):
        found = await trial(outrider)
    assert found["answer"]["status"] == 401
    assert MASK in found["answer"]["body"]
    assert (found["outcome"], found["success"]) == ("waiting", False)
    assert "unauthorized" in f"{found['reason']} {found['error']}"
    assert "refuses the credential" in found["fix"]


async def test_a_refused_recipient_is_the_messages_own_outcome(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, "mailjet", sandbox.http_url) as outrider,
    ):
        found = await trial(outrider, "reject-me@example.test")
    assert (found["outcome"], found["reason"]) == ("rejected", "invalid_recipient")
    assert not found["success"]
    assert "try another --to" in found["fix"]


async def test_a_server_that_is_not_there_and_a_call_without_an_answer(
    database: str, tmp_path: Path
) -> None:
    async with opened(
        database, tmp_path, "postmark", f"http://127.0.0.1:{closed_port()}"
    ) as outrider:
        found = await trial(outrider, seconds=2)
        assert (found["request"], found["success"]) == (None, False)
        assert "gatewayUrl" in found["fix"]
    async with (
        Sandbox(Faults(drop_rate=1.0)) as sandbox,
        opened(database, tmp_path, "postmark", sandbox.http_url) as outrider,
    ):
        found = await trial(outrider)
        assert found["outcome"] == "in_doubt"
        assert found["answer"]["status"] is None
        assert found["evidence"] == {
            "key": None,
            "lookUp": "`GET /messages/outbound?metadata_outrider_reference=`",
            "receipts": None,
        }


async def test_it_does_not_send_what_else_waits_for_the_target(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, "sms", sandbox.http_url) as outrider,
    ):
        offer = launches.message(Channel.SMS, TARGET, body="An offer")
        await launches.launch(outrider, [offer], launches.people(3))
        with pytest.raises(Conflict, match="open jobs wait"):
            await trial(outrider, PHONE)
        assert not sandbox.requests


def test_the_command_prints_it_and_fails_where_it_failed(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "registry.json"
    file.write_bytes(launches.registry(launches.target("noop", "noop", "noop:")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
    monkeypatch.setenv("OUTRIDER_REGISTRY", str(file))
    run = CliRunner()
    assert run.invoke(app, ["migrate"]).exit_code == 0
    done = run.invoke(app, ["target", "try", "noop", "--to", PHONE])
    assert done.exit_code == 0, done.output
    assert "outcome: accepted" in done.output
    assert "outrider intent show try-" in done.output
    run.invoke(app, ["target", "pause", "noop"])
    paused = run.invoke(app, ["target", "try", "noop", "--to", PHONE, "--seconds", "1"])
    assert paused.exit_code == 1
    assert "outcome: waiting" in paused.output
    assert run.invoke(app, ["target", "try", "nowhere", "--to", PHONE]).exit_code == 1

"""X8: no password of a database URL in any word, and no address of a gateway in its failures."""

import asyncio
import json
import socket
import ssl
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.domain.database_urls import masked, without_password
from outrider.domain.errors import StoreError
from outrider.gateways.failure_words import why
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.launches import target
from tests.support.deployment import PATIENCE_SECONDS, deployed
from tests.support.eventually import eventually

BAD_URLS = [
    "postgresql://me:hunter2@127.0.0.1:1/outrider",
    "postgresql://me:hunter2#x@127.0.0.1:1/outrider",
    "postgresql://me:hunter2/x@127.0.0.1:1/outrider",
    "postgresql://me:hunter2@127.0.0.1:port/outrider",
    "postgresql://me:x@127.0.0.1:1/outrider?password=hunter2",
    "postgresql://me:hunter2@[::1/outrider",
    "postgresql+asyncpg://me:hunter2@127.0.0.1/outrider",
    "mysql://me:hunter2@127.0.0.1/outrider",
    "me:hunter2@127.0.0.1/outrider",
    "//me:hunter2@127.0.0.1/outrider",
    "sqlite://me:hunter2@127.0.0.1/outrider",
    "hunter2",
]
COMMANDS = [["migrate"], ["check"], ["serve", "--port", "0"], ["work"], ["campaign", "list"]]


@pytest.mark.parametrize("url", BAD_URLS)
def test_no_command_repeats_the_password_of_a_bad_database_url(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # All commands get the URL by one way; what is wrong with it shows in any of them.
    commands = COMMANDS if url == BAD_URLS[0] else COMMANDS[:2]
    for flags, form in ((["--database", url], []), ([], ["--json"])):
        if not flags:
            monkeypatch.setenv("OUTRIDER_DATABASE_URL", url)
        for command in commands:
            ended = CliRunner().invoke(app, [*flags, *command, *form])
            assert ended.exit_code == 1, (command, ended.output)
            assert "hunter2" not in ended.output
            assert isinstance(ended.exception, SystemExit), ended.exception


async def test_the_drivers_error_about_an_unreachable_database_has_no_password() -> None:
    store = PostgresStore("postgresql://me:hunter2@127.0.0.1:1/outrider")
    with pytest.raises(StoreError) as refused:
        await store.verify_schema()
    assert "hunter2" not in refused.value.message
    await store.close()


def test_a_url_is_shown_without_its_user() -> None:
    assert masked("postgresql://me:a@b@db:5432/x?password=y&z=1") == (
        "postgresql://***@db:5432/x?password=***&z=1"
    )
    said = without_password("no such host: p%40ss (p@ss)", "postgresql://me:p%40ss@db/x")
    assert said == "no such host: *** (***)"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


async def test_a_failed_connection_is_reported_without_its_address() -> None:
    port = free_port()
    with pytest.raises(OSError, match=str(port)) as refused:
        await asyncio.open_connection("127.0.0.1", port)
    assert why(refused.value) == "[Errno 111] Connection refused"
    mismatch = ssl.SSLCertVerificationError(
        1, "Hostname mismatch, certificate is not valid for 'gateway.internal'."
    )
    assert "gateway.internal" not in why(mismatch)


async def test_an_intent_whose_gateway_was_removed_does_not_show_its_address(
    tmp_path: Path,
) -> None:
    port = free_port()
    targets = [target("sms.all", "sms", f"http://127.0.0.1:{port}", maxAttempts=1)]
    async with deployed(tmp_path, f"sqlite:///{tmp_path}/outrider.db", targets) as deployment:
        await deployment.submit("one", "sms.all", "+447700900001")

        async def is_so() -> bool:
            return b"efused" in (await deployment.server.request("GET", "/targets")).body

        await eventually(is_so, seconds=PATIENCE_SECONDS)
        intent = await deployment.server.get("/intents/one")
        assert intent["error"] == "[Errno 111] Connection refused"
        # Whoever runs the server sees the contract (M13); other workspaces see no URL in it.
        assert intent["contract"].pop("gatewayUrl") == f"http://127.0.0.1:{port}"
        assert str(port) not in json.dumps(intent)
        alerts = (await deployment.server.request("GET", "/alerts")).body.decode()
        assert str(port) not in alerts
        [listed] = (await deployment.server.get("/targets"))["targets"]
        assert listed["state"]["reason"] == "connect_failed: [Errno 111] Connection refused"

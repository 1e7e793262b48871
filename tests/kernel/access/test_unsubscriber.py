"""The parts of unsubscribing: one secret for everybody, the headers of a provider, and a hint."""

import asyncio
import json
from os import urandom
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey
from outrider.domain.states import Channel
from outrider.gateways.content import Content
from outrider.gateways.directory import Gateways
from outrider.gateways.families.resend import ResendGateway
from outrider.gateways.provider import Request
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.access.unsubscriber import SIGNING_KEY, Unsubscriber
from outrider.kernel.transactions import signing_keys
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.launches import registry, target
from tests.support.foundations import foundation
from tests.support.provider_targets import TARGETS, PlantedSecrets


async def test_two_processes_that_start_at_once_sign_alike(store: Store) -> None:
    def one(url: str | None) -> Unsubscriber:
        return Unsubscriber(foundation(store, clock=FakeClock()), urandom, url)

    assert await one(None).urls() is None
    assert await store.read(signing_keys.find(SIGNING_KEY)) is None
    found = await asyncio.gather(*(one("https://a.test").urls() for _ in range(5)))
    assert found[0] is not None
    assert len({each.secret for each in found if each}) == 1
    url = found[0].url_of(DEFAULT_SCOPE, Channel.EMAIL, "Ada@example.test")
    told = await one(None).unsubscribe(url.rpartition("/")[2])
    assert told is not None
    assert (told.scope, told.address) == (DEFAULT_SCOPE, "ada@example.test")


async def test_resend_is_given_both_headers() -> None:
    gateways = Gateways(PlantedSecrets(), targets={"mail": TARGETS["resend"]})
    gateway = gateways.gateway("mail", "resend", "https://api.example.test")
    assert isinstance(gateway, ResendGateway)
    for url in ("https://own.test/u", None):
        content = Content("ada@example.test", "s", "b", unsubscribe_url=url)
        request = gateway.compose(IdempotencyKey("r"), content)
        assert isinstance(request, Request)
        assert json.loads(request.body).get("headers") == (url and {
            "List-Unsubscribe": "<https://own.test/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        })  # fmt: skip
    await gateways.close()


async def test_check_says_that_a_public_url_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "registry.json"
    database = ["--database", f"sqlite:///{tmp_path}/x.db", "--registry", str(file)]

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, [*database, *arguments])

    async with Sandbox() as sandbox:
        file.write_bytes(registry(target("mail", "smtp", sandbox.smtp_url)))
        await run("migrate")
        result = await run("check")
        assert result.exit_code == 0
        assert "OUTRIDER_PUBLIC_URL" in result.stderr
        monkeypatch.setenv("OUTRIDER_PUBLIC_URL", "https://example.test")
        told = await run("check", "--json")
        assert json.loads(told.stdout)["hints"] == []

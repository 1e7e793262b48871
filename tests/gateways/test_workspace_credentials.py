"""Secrets have a scope: a workspace reaches a provider with its own credentials or not at all."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import ValidationError

from outrider.bootstrap import make_gateways
from outrider.domain.errors import InvalidInput
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.gateways.target_checker import check_targets
from outrider.secrets.scopes import ScopedSecrets, owners_of
from outrider.secrets.store import LocalSecrets
from outrider.settings import Settings, TargetSettings
from outrider.testing.launches import target
from tests.gateways.test_target_check import contract
from tests.support.api_server import Answer
from tests.support.deployment import Deployment, deployed
from tests.support.eventually import eventually

TARGET = "mail.all"
ACME = WorkspaceName("acme", "shop", "live")
BETA = WorkspaceName("beta", "shop", "live")
KEYS = {"KEY_DEFAULT": "re_default", "KEY_ACME": "re_acme", "KEY_BETA": "re_beta"}
QUICK_DOOR = {"breaker_seconds": 0.3, "options": {"from": "news@example.test"}}


@dataclass
class Provider:
    """Resend, as far as these tests go: who asked for whom, with which key."""

    refuses: set[str] = field(default_factory=set)
    taken: list[tuple[str, str]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    url: str = ""

    async def send(self, request: web.Request) -> web.Response:
        key = request.headers["Authorization"].removeprefix("Bearer ")
        if key in self.refuses:
            self.refused[key] += 1
            error = {"name": "invalid_api_key", "message": "no such key"}
            return web.json_response(error, status=403)
        body = await request.json()
        self.taken.append((key, body["to"][0]))
        return web.json_response({"id": str(len(self.taken))})


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    provider = Provider()
    app = web.Application()
    app.router.add_post("/emails", provider.send)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()


def own(variable: str) -> dict[str, object]:
    return {"credentials": {"apiKey": f"env:{variable}"}}


@asynccontextmanager
async def scene(
    folder: Path, database: str, provider: Provider, **settings: object
) -> AsyncIterator[Deployment]:
    given = {TARGET: {**QUICK_DOOR, **settings}}
    environment = {"OUTRIDER_TARGETS": json.dumps(given), **KEYS}
    resend = target(TARGET, "resend", provider.url)
    async with deployed(folder, database, [resend], environment=environment) as deployment:
        yield deployment


async def submit(deployment: Deployment, name: str, workspace: WorkspaceName | None) -> str | None:
    """One mail to NAME@example.test; the key that the workspace is asked about it with."""
    key = None if workspace is None else await deployment.key_of(str(workspace))
    await deployment.submit(name, TARGET, f"{name}@example.test", key=key)
    return key


async def until_taken(provider: Provider, count: int) -> set[tuple[str, str]]:
    await eventually(lambda: len(provider.taken) >= count, seconds=30)
    return set(provider.taken)


async def until_alerted(deployment: Deployment, key: str | None) -> Answer:
    """The alerts of the workspace whose key it is, when there is one."""
    async with asyncio.timeout(30):
        while True:
            answer = await deployment.server.request("GET", "/alerts", key=key)
            if answer.json["items"]:
                return answer
            await asyncio.sleep(0.02)


async def test_workspaces_reach_one_target_each_with_its_own_credential(
    database: str, tmp_path: Path
) -> None:
    """R10, D35: all tenants shared every credential."""
    workspaces = {str(ACME): own("KEY_ACME"), str(BETA): own("KEY_BETA")}
    async with (
        providing() as provider,
        scene(tmp_path, database, provider, **own("KEY_DEFAULT"), workspaces=workspaces) as world,
    ):
        await submit(world, "ada", None)
        await submit(world, "bob", ACME)
        await submit(world, "eve", BETA)
        assert await until_taken(provider, 3) == {
            ("re_default", "ada@example.test"),
            ("re_acme", "bob@example.test"),
            ("re_beta", "eve@example.test"),
        }


async def test_a_credential_is_shared_only_if_the_operator_says_so(
    database: str, tmp_path: Path
) -> None:
    """R10, D35: who has none is not sent for, waits, and keeps nobody else waiting."""
    async with (
        providing() as provider,
        scene(tmp_path, database, provider, **own("KEY_DEFAULT"), shared_with=["acme/*"]) as world,
    ):
        beta_key = await submit(world, "eve", BETA)
        answer = await until_alerted(world, beta_key)
        (alert,) = answer.json["items"]
        assert (alert["code"], alert["subject"]) == ("TARGET_HELD", TARGET)
        assert "beta/shop/live" in alert["message"]
        assert "KEY_DEFAULT" not in answer.body.decode()
        await submit(world, "ada", None)
        await submit(world, "bob", ACME)
        assert await until_taken(provider, 2) == {
            ("re_default", "ada@example.test"),
            ("re_default", "bob@example.test"),
        }
        answer = await world.server.request("GET", "/intents/eve", key=beta_key)
        assert answer.json["status"] == "PENDING"


async def test_a_refused_credential_holds_back_its_own_workspace_alone(
    database: str, tmp_path: Path
) -> None:
    """R10, D35."""
    workspaces = {str(ACME): own("KEY_ACME")}
    async with (
        providing() as provider,
        scene(tmp_path, database, provider, **own("KEY_DEFAULT"), workspaces=workspaces) as world,
    ):
        provider.refuses = {"re_acme"}
        await submit(world, "bob", ACME)
        await eventually(lambda: provider.refused["re_acme"], seconds=30)
        await submit(world, "ada", None)
        assert await until_taken(provider, 1) == {("re_default", "ada@example.test")}
        provider.refuses = set()
        assert ("re_acme", "bob@example.test") in await until_taken(provider, 2)


async def test_the_name_of_the_default_workspaces_secret_is_shown_to_nobody_else(
    database: str, tmp_path: Path
) -> None:
    """R10, D35: it stood on the door that everybody sees, beside a workspace without it."""
    credentials = {"apiKey": "file:/nowhere/default-mail-key"}
    async with (
        providing() as provider,
        scene(
            tmp_path, database, provider, credentials=credentials, shared_with=["acme/*"]
        ) as world,
    ):
        told = {}
        for workspace in (None, ACME, BETA):
            key = await submit(world, f"ada-{workspace and workspace.tenant}", workspace)
            alerts = await until_alerted(world, key)
            registry = await world.server.request("GET", "/registry", key=key)
            assert "target_setup" in registry.body.decode()
            assert "default-mail-key" not in registry.body.decode()
            told[workspace] = "default-mail-key" in alerts.body.decode()
        assert told == {None: True, ACME: False, BETA: False}


# Whose secret it is


def scoped(**targets: dict[str, object]) -> ScopedSecrets:
    given = {name: TargetSettings.model_validate(each) for name, each in targets.items()}
    return ScopedSecrets(LocalSecrets(), owners_of(given))


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def test_a_workspace_cannot_name_the_secret_of_another() -> None:
    """R10, D35: nor one that is nobody's, and it does not learn whether there is one."""
    secrets = scoped(t={**own("KEY_DEFAULT"), "workspaces": {str(ACME): own("KEY_ACME")}})
    assert secrets.resolve(["env:KEY_ACME"], ACME) == {"env:KEY_ACME": "re_acme"}
    told = set()
    for reference in ("env:KEY_ACME", "env:KEY_DEFAULT", "env:PATH", "env:NOT_THERE"):
        with pytest.raises(InvalidInput) as refused:
            secrets.resolve([reference], BETA)
        told.add((refused.value.message, refused.value.hint))
    assert len(told) == 1
    with pytest.raises(InvalidInput):
        secrets.resolve(["env:KEY_ACME"], DEFAULT_WORKSPACE_NAME)
    with pytest.raises(InvalidInput):
        secrets.resolve(["env:KEY_ACME", "env:KEY_DEFAULT"], ACME)


@pytest.mark.parametrize(
    ("shared_with", "can"),
    [
        ([], []),
        (["*"], [ACME, BETA]),
        (["acme/*"], [ACME]),
        (["beta/shop/live"], [BETA]),
        (["beta/shop/test"], []),
    ],
)
def test_workspaces_that_share_the_targets_own_credential(
    shared_with: list[str], can: list[WorkspaceName]
) -> None:
    """R10, D35: the default workspace always has it: with one workspace nothing changes."""
    secrets = scoped(t={**own("KEY_DEFAULT"), "shared_with": shared_with})
    assert secrets.resolve(["env:KEY_DEFAULT"], DEFAULT_WORKSPACE_NAME)
    for workspace in (ACME, BETA):
        if workspace in can:
            assert secrets.resolve(["env:KEY_DEFAULT"], workspace)
        else:
            with pytest.raises(InvalidInput):
                secrets.resolve(["env:KEY_DEFAULT"], workspace)


def test_a_scheme_is_asked_once_for_all_names_and_for_which_workspace() -> None:
    """R10, D35: as the contract has it, many references in one call."""
    asked: list[tuple[list[str], WorkspaceName]] = []

    class Vault:
        def resolve(self, name: str) -> str:
            raise AssertionError(name)

        def resolve_all(self, names: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:
            asked.append((list(names), workspace))
            return {name: f"{workspace.tenant}:{name}" for name in names}

    found = LocalSecrets({"vault": Vault()}).resolve(["vault:a", "vault:b", "vault:a"], ACME)
    assert found == {"vault:a": "acme:a", "vault:b": "acme:b"}
    assert asked == [(["a", "b"], ACME)]


def test_a_scheme_that_leaves_one_out_is_refused() -> None:
    """R10, D35: all of them or none."""

    class Forgetful:
        def resolve(self, name: str) -> str:
            return name

        def resolve_all(self, names: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
            return {names[0]: "x"}

    with pytest.raises(InvalidInput, match="v:b"):
        LocalSecrets({"v": Forgetful()}).resolve(["v:a", "v:b"], ACME)


def test_the_default_workspaces_own_credential_is_not_what_is_shared() -> None:
    """R10, D35: it may have one of its own beside the one that everybody shares."""
    settings = TargetSettings.model_validate(
        {
            **own("KEY_DEFAULT"),
            "shared_with": ["*"],
            "workspaces": {str(DEFAULT_WORKSPACE_NAME): own("KEY_BETA")},
        }
    )
    gateways = make_gateways(Settings(targets={"t": settings}))
    url = "https://api.example.test"
    private = gateways.gateway("t", "resend", url)
    shared = gateways.gateway("t", "resend", url, ACME)
    assert private is not shared
    assert gateways.gateway("t", "resend", url, BETA) is shared
    assert private.credential("apiKey") == "re_beta"  # type: ignore[attr-defined]
    assert shared.credential("apiKey") == "re_default"  # type: ignore[attr-defined]


async def test_a_shared_credential_is_the_default_workspaces_whichever_asks_first() -> None:
    """R10, D35: a scheme may have other values for other workspaces, and a gateway is shared."""

    class Vault:
        def resolve(self, name: str) -> str:
            raise AssertionError(name)

        def resolve_all(self, names: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:
            return {name: f"{workspace.tenant}:{name}" for name in names}

    given = {
        "options": {"from": "news@example.test"},
        "credentials": {"apiKey": "env:KEY"},
        "shared_with": ["*"],
        "workspaces": {str(BETA): {"credentials": {"apiKey": "env:OWN"}}},
    }
    targets = {"t": TargetSettings.model_validate(given)}
    secrets = ScopedSecrets(LocalSecrets({"env": Vault()}), owners_of(targets))
    gateways = Gateways(secrets, targets=targets)
    found = [
        gateways.gateway("t", "resend", "https://api.example.test", each).credential("apiKey")  # type: ignore[attr-defined]
        for each in (ACME, BETA, DEFAULT_WORKSPACE_NAME)
    ]
    await gateways.close()
    assert found == ["default:KEY", "beta:OWN", "default:KEY"]


def test_a_secret_of_one_target_is_not_given_to_another() -> None:
    """R10, D35: both targets name the same one, and only the first has it for this workspace."""
    targets = {
        "theirs": TargetSettings.model_validate({"workspaces": {str(ACME): own("KEY_ACME")}}),
        "ours": TargetSettings.model_validate(own("KEY_ACME")),
    }
    gateways = make_gateways(Settings(targets=targets))
    url = "https://api.example.test"
    for made in (
        gateways.gateway("theirs", "resend", url, ACME),
        gateways.gateway("ours", "resend", url),
    ):
        assert made.credential("apiKey") == "re_acme"  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="does not belong to the workspace acme/shop/live"):
        gateways.gateway("ours", "resend", url, ACME)


async def test_check_looks_at_every_workspaces_set_up() -> None:
    """R10, D35."""
    workspaces = {str(ACME): own("KEY_ACME"), str(BETA): own("NOT_THERE")}
    settings = TargetSettings.model_validate({"workspaces": workspaces})
    async with providing() as provider:
        gateways = make_gateways(Settings(targets={"t": settings}))
        given = [contract("t", "resend", provider.url)]
        found = await check_targets(gateways, given, allow_private=True)
        await gateways.close()
    messages = [each.message for each in found["t"]]
    assert any("for the workspace beta/shop/live" in m and "NOT_THERE" in m for m in messages)
    assert not any("default/default/default" in message for message in messages)


@pytest.mark.parametrize(
    "wrong",
    [{"shared_with": ["acme"]}, {"shared_with": ["*/shop/live"]}, {"workspaces": {"acme": {}}},
     {"workspaces": {str(ACME): {"credentials": {"apiKey": "re_123"}}}},
     {"workspaces": {str(ACME): {"options": {"apiKey": "re_123"}}}}],
)  # fmt: skip
def test_a_scope_that_matches_no_workspace_or_is_a_value_is_refused(
    wrong: dict[str, object],
) -> None:
    """R10, D35."""
    with pytest.raises(ValidationError) as refused:
        TargetSettings.model_validate(wrong)
    assert "re_123" not in str(refused.value)

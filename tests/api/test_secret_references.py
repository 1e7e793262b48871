"""A secret's value is refused wherever its reference belongs, and never stored nor repeated."""

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from outrider.bootstrap import load_registry, open_outrider
from outrider.documents.campaign import parse_campaign
from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel, PhaseState
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import run_log
from outrider.limits.gateways import SECRET_MAX_BYTES
from outrider.ports.secrets import GROUP, own_secret
from outrider.secrets.store import LocalSecrets, load_secrets
from outrider.settings import Settings, TargetSettings
from outrider.testing.launches import ACTOR, message, people, registry, target
from tests.gateways.test_no_leak import _stored, forms
from tests.support.controls import begun, until_ended, until_state
from tests.support.distributions import Install, installing
from tests.support.provider_targets import PLANTED, TARGETS
from tests.support.whole_runs import IMPATIENT, working

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "secrets-and-artifacts.md").read_text()
VALUE = "hunter2-7f3a9c"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs distributions for a test: their code, and the schemes they register."""
    with installing(GROUP, tmp_path, monkeypatch) as install:
        yield install


# Schemes.


def test_the_scheme_that_the_page_shows_works_unchanged(installed: Install, tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [lines] = re.findall(r"```toml\n(\[project.*?)```", PAGE, re.DOTALL)
    folder = tmp_path / "vault"
    (folder / "mail").mkdir(parents=True)
    (folder / "mail" / "api-key").write_text(f"{VALUE}\n")
    schemes = tomllib.loads(lines)["project"]["entry-points"][GROUP]
    installed(schemes, code.replace("/vault/secrets", str(folder)), "team_vault")
    secrets = load_secrets()
    assert own_secret(secrets, "vault:mail/api-key") == VALUE
    for wrong in ("vault:mail/missing", "vault:../../etc/passwd"):
        with pytest.raises(InvalidInput, match=f"the secret {wrong} cannot be resolved"):
            own_secret(secrets, wrong)
    settings = TargetSettings(credentials={"apiKey": "vault:mail/api-key"})
    assert settings.credentials == {"apiKey": "vault:mail/api-key"}


def test_the_built_in_schemes_are_always_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", VALUE)
    (tmp_path / "planted").write_text(f" {VALUE}\n")
    assert own_secret(load_secrets(), "env:PLANTED") == VALUE
    assert own_secret(load_secrets(), f"file:{tmp_path}/planted") == VALUE
    assert own_secret(LocalSecrets(), "env:PLANTED") == VALUE


@pytest.mark.parametrize(
    ("name", "thing", "code", "why"),
    [
        ("env", "Scheme", "", "has a name already used by Outrider itself"),
        ("Vault", "Scheme", "", "should have a name that matches"),
        ("v", "Scheme", "", "should have a name that matches"),
        ("vault", "Missing", "", "cannot be loaded: AttributeError"),
        ("vault", "Scheme", "import nowhere_at_all", "cannot be loaded: ModuleNotFoundError"),
        ("vault", "Scheme", f"raise OSError('{VALUE}')", "cannot be loaded: OSError"),
        ("vault", "Scheme", "Scheme = dict", "cannot be loaded: AttributeError"),
        ("vault", "Scheme", "class Scheme: resolve = 5", "should have the method resolve"),
    ],
)
def test_a_scheme_that_is_wrong_is_refused_and_its_distribution_named(
    installed: Install, name: str, thing: str, code: str, why: str
) -> None:
    good = "class Scheme:\n    def resolve(self, name): return name\n"
    installed({name: f"plugin:{thing}"}, good + code)
    with pytest.raises(InvalidInput) as refused:
        load_secrets()
    assert f"the scheme of secrets '{name}' of acme-plugin 1.2 {why}" in refused.value.message
    assert VALUE not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [f"raise RuntimeError('{VALUE}')", "return None", "return ''", "return 5",
     f"return 'x' * {SECRET_MAX_BYTES + 1}"],
)  # fmt: skip
def test_an_error_of_a_scheme_is_reported_without_its_text(installed: Install, body: str) -> None:
    installed({"vault": "plugin:V"}, f"class V:\n    def resolve(self, name): {body}\n")
    with pytest.raises(InvalidInput, match="the secret vault:x ") as refused:
        own_secret(load_secrets(), "vault:x")
    assert VALUE not in str(refused.value)


# Places where a value is refused.


@pytest.mark.parametrize("value", [VALUE, f"vault:{VALUE}", f"sk:{VALUE}", f"env:{VALUE}", ""])
def test_a_target_credential_that_is_a_value_is_refused_and_not_repeated(value: str) -> None:
    for make in (
        lambda: TargetSettings(credentials={"apiKey": value}),
        lambda: Settings.model_validate({"targets": {"mail": {"credentials": {"apiKey": value}}}}),
    ):
        with pytest.raises(ValidationError, match="never the secret itself") as refused:
            make()
        assert VALUE not in str(refused.value)


def test_a_secret_among_a_targets_options_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValidationError, match="apiKey belongs in credentials") as refused:
        TargetSettings(options={"from": "a@b.test", "apiKey": VALUE})
    assert VALUE not in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"gatewayUrl": f"http://user:{VALUE}@gateway.test"},
        {"gatewayUrl": f"http://{VALUE}@gateway.test"},
        {"gatewayUrl": f"http://gateway.test/?apiKey={VALUE}"},
        {"apiKey": VALUE},
        {"password": VALUE},
        {"credentials": {"token": VALUE}},
    ],
)
def test_a_registry_that_holds_a_secret_is_refused_and_not_repeated(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    path = tmp_path / "registry.json"
    path.write_bytes(registry({**target("sms", "sms", "http://gateway.test"), **changed}))
    with pytest.raises(InvalidInput) as refused:
        load_registry(path)
    assert VALUE not in f"{refused.value} {refused.value.problems}"


@pytest.mark.parametrize(
    ("where", "name"),
    [("", "apiKey"), ("", "credentials"), ("messages", "password"), ("audience", "authorization")],
)
def test_a_campaign_that_holds_a_secret_is_refused_and_not_repeated(where: str, name: str) -> None:
    offer: dict[str, object] = {
        "id": "offer",
        "channel": "sms",
        "submissionTarget": "sms",
        "body": "Hi",
    }
    audience: dict[str, object] = {"recipients": [{"id": "a", "phone": "+447700900123"}]}
    whole: dict[str, object] = {"name": "x", "phases": ["launch"], "messages": [offer]}
    whole["audience"] = audience
    {"": whole, "messages": offer, "audience": audience}[where][name] = VALUE
    with pytest.raises(InvalidInput) as refused:
        parse_campaign(
            json.dumps(whole).encode(), check_template=lambda _source: None, source_root=None
        )
    assert any(problem.path.endswith(name) for problem in refused.value.problems)
    assert VALUE not in f"{refused.value} {refused.value.problems}"


def assert_absent(secret: str, folder: Path) -> None:
    """Neither in any cell of the database nor in the bytes of its files and of the artifacts."""
    stored = _stored(folder / "outrider.db")
    assert len(stored) > 100, "the database was not looked at"
    artifacts = [path for path in (folder / "artifacts").rglob("*") if path.is_file()]
    assert len(artifacts) > 1, "the artifacts were not looked at"
    files = [path.read_bytes() for path in (*folder.glob("outrider.db*"), *artifacts)]
    for form in forms(secret):
        assert not any(form in text for text in (*stored, *files))


async def test_a_whole_campaign_leaves_no_secret_in_the_database_or_the_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", PLANTED)
    log_path = tmp_path / "received.ndjson"
    async with Sandbox(log_path=log_path) as sandbox:
        path = tmp_path / "registry.json"
        path.write_bytes(registry(target("planted", "twilio_sms", sandbox.http_url)))
        settings = Settings(
            database_url=f"sqlite:///{tmp_path}/outrider.db",
            registry=path,
            artifacts=tmp_path / "artifacts",
            spool=tmp_path / "spool",
            targets={"planted": TARGETS["twilio_sms"]},
        )
        async with open_outrider(settings, limits=IMPATIENT) as outrider:
            await outrider.store.migrate()
            definition = CampaignDefinition(
                "test", ("launch", "report"), (message(Channel.SMS, "planted"),), 10
            )
            campaign_id, _ = await outrider.deployer.create(
                DEFAULT_SCOPE, definition, people(25), ACTOR
            )
            async with working(outrider), asyncio.timeout(60):
                run_id = await begun(outrider, campaign_id, "launch")
                accounting = await until_ended(outrider, run_id)
                await until_state(outrider, campaign_id, PhaseState.COMPLETED, "launch")
                await begun(outrider, campaign_id, "report")
                await until_state(outrider, campaign_id, PhaseState.COMPLETED, "report")
            events = await outrider.store.read(run_log.events_after(run_id, 0, 1_000))
    assert accounting.sent == 25
    assert events[-1].type == "RunCompleted"
    assert_absent(PLANTED, tmp_path)

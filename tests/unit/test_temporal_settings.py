"""How Temporal is named in settings: what belongs together, what is refused, child processes."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from outrider.limits.engines import TEMPORAL_WINDOW_JOBS, TEMPORAL_WINDOW_JOBS_MAX
from outrider.settings import Settings

WHOLE = {
    "OUTRIDER_ENGINE": "temporal",
    "OUTRIDER_TEMPORAL_ADDRESS": "temporal.example.test:7233",
    "OUTRIDER_TEMPORAL_NAMESPACE": "campaigns",
    "OUTRIDER_TEMPORAL_TASK_QUEUE": "outbound",
    "OUTRIDER_TEMPORAL_WINDOW_JOBS": "25",
    "OUTRIDER_TEMPORAL_TLS": "true",
    "OUTRIDER_TEMPORAL_TLS_CA": "/keys/ca.pem",
    "OUTRIDER_TEMPORAL_TLS_CERTIFICATE": "/keys/worker.crt",
    "OUTRIDER_TEMPORAL_TLS_KEY": "/keys/worker.key",
    "OUTRIDER_TEMPORAL_TLS_SERVER_NAME": "temporal.internal",
    "OUTRIDER_TEMPORAL_API_KEY": "file:/keys/api",
    "OUTRIDER_TEMPORAL_CODEC_KEY": "env:CODEC_KEY",
}

MISTYPED = (
    "", "temporal.internal", ":7233", "temporal.internal:", "temporal.internal:grpc",
    "temporal.internal:72333", "temporal.internal:0", "http://temporal.internal:7233",
    "temporal.internal:7233/", "temporal internal:7233", "temporal:7233:7233", "::1:7233",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a settings file."""
    monkeypatch.chdir(tmp_path)


def told(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_without_a_word_the_engine_is_local() -> None:
    settings = Settings()
    assert settings.engine == "local"
    assert settings.temporal_address == "127.0.0.1:7233"
    assert settings.temporal_window_jobs == TEMPORAL_WINDOW_JOBS
    assert not settings.temporal_tls


def test_every_setting_has_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = told(monkeypatch, WHOLE)
    assert settings.engine == "temporal"
    assert settings.temporal_address == "temporal.example.test:7233"
    assert settings.temporal_namespace == "campaigns"
    assert settings.temporal_task_queue == "outbound"
    assert settings.temporal_window_jobs == 25
    assert settings.temporal_tls
    assert settings.temporal_tls_ca == Path("/keys/ca.pem")
    assert settings.temporal_tls_certificate == Path("/keys/worker.crt")
    assert settings.temporal_tls_key == Path("/keys/worker.key")
    assert settings.temporal_tls_server_name == "temporal.internal"
    assert settings.temporal_api_key == "file:/keys/api"
    assert settings.temporal_codec_key == "env:CODEC_KEY"


@pytest.mark.parametrize("variables", [WHOLE, {"OUTRIDER_ENGINE": "temporal"}])
def test_a_child_process_is_given_the_same(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    here = told(monkeypatch, variables)
    passed_on = here.as_environment()
    for name in variables:
        monkeypatch.delenv(name)
    there = told(monkeypatch, passed_on)
    assert there.model_dump(mode="json") == here.model_dump(mode="json")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"engine": "airflow"}, "'local' or 'conductor' or 'temporal'"),
        *(
            ({"temporal_address": address}, "should be HOST:PORT, without a scheme")
            for address in MISTYPED
        ),
        ({"temporal_namespace": ""}, "at least 1 character"),
        ({"temporal_task_queue": ""}, "at least 1 character"),
        ({"temporal_window_jobs": 0}, "greater than or equal to 1"),
        ({"temporal_window_jobs": TEMPORAL_WINDOW_JOBS_MAX + 1}, "less than or equal"),
        ({"temporal_tls": True, "temporal_tls_certificate": "c"}, "must be set together"),
        ({"temporal_tls": True, "temporal_tls_key": "k"}, "must be set together"),
        ({"temporal_tls_ca": "ca"}, "requires temporal_tls = true"),
        ({"temporal_tls_server_name": "name"}, "requires temporal_tls = true"),
        (
            {"temporal_tls_certificate": "c", "temporal_tls_key": "k"},
            "requires temporal_tls = true",
        ),
        ({"temporal_api_key": "env:KEY"}, "would be sent unencrypted"),
        ({"temporal_tls": True, "temporal_api_key": "hunter2"}, "never the secret itself"),
        ({"temporal_codec_key": "ab" * 32}, "never the secret itself"),
    ],
)
def test_a_mistaken_secret_is_refused_and_never_repeated(
    settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ValidationError, match=why) as refused:
        Settings.model_validate(settings)
    assert "hunter2" not in str(refused.value)
    assert "abab" not in str(refused.value)


@pytest.mark.parametrize("address", ["localhost:1", "10.0.0.1:65535", "a_b.c-d:7233", "[::1]:7233"])
def test_an_address_is_a_name_or_a_number_and_a_port(address: str) -> None:
    assert Settings(temporal_address=address).temporal_address == address


def test_tls_needs_nothing_but_its_flag() -> None:
    """The certificates of the machine are trusted then."""
    settings = Settings(temporal_tls=True, temporal_api_key="env:KEY")
    assert settings.temporal_tls_ca is None

"""How Conductor is named in settings: what is refused, and child processes are given the same."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from outrider.limits.engines import CONDUCTOR_WINDOW_JOBS_MAX
from outrider.settings import Settings

WHOLE = {
    "OUTRIDER_ENGINE": "conductor",
    "OUTRIDER_CONDUCTOR_URL": "https://conductor.example.test/api",
    "OUTRIDER_CONDUCTOR_DOMAIN": "outbound",
    "OUTRIDER_CONDUCTOR_WINDOW_JOBS": "25",
    "OUTRIDER_CONDUCTOR_TOKEN": "file:/keys/conductor",
}


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a settings file."""
    monkeypatch.chdir(tmp_path)


def test_every_setting_has_its_variable_and_goes_to_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in WHOLE.items():
        monkeypatch.setenv(name, value)
    here = Settings()
    assert here.conductor_url == "https://conductor.example.test/api"
    assert here.conductor_domain == "outbound"
    assert here.conductor_window_jobs == 25
    passed_on = here.as_environment()
    for name in WHOLE:
        monkeypatch.delenv(name)
    for name, value in passed_on.items():
        monkeypatch.setenv(name, value)
    assert Settings().model_dump(mode="json") == here.model_dump(mode="json")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"conductor_url": "conductor.internal:8080"}, "should be a URL"),
        ({"conductor_url": "ftp://conductor.internal"}, "should be a URL"),
        ({"conductor_url": "http://conductor.internal:port"}, "is not a URL"),
        ({"conductor_url": "http://me:hunter2@conductor.internal"}, "only a host, a port"),
        ({"conductor_url": "http://conductor.internal/?x=1"}, "only a host, a port"),
        ({"conductor_domain": ""}, "at least 1 character"),
        ({"conductor_window_jobs": 0}, "greater than or equal to 1"),
        ({"conductor_window_jobs": CONDUCTOR_WINDOW_JOBS_MAX + 1}, "less than or equal"),
        ({"conductor_token": "hunter2"}, "never the secret itself"),
        (
            {"conductor_url": "http://conductor.internal:8080", "conductor_token": "env:TOKEN"},
            "would be sent unencrypted",
        ),
    ],
)
def test_a_mistaken_secret_is_refused_and_never_repeated(
    settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ValidationError, match=why) as refused:
        Settings.model_validate(settings)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://localhost:8080", "https://conductor.internal"]
)
def test_a_token_is_sent_on_this_machine_or_encrypted(url: str) -> None:
    assert Settings(conductor_url=url, conductor_token="env:TOKEN").conductor_token == "env:TOKEN"

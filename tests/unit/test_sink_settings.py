"""How sinks are named in settings: both forms, child processes, and what is refused."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from outrider.settings import Settings


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: str) -> Settings:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_BUS", bus)
    return Settings()


def test_urls_with_commas_get_names_from_their_kinds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = "https://a.test/x, nats://h:4222?stream=S ,redis://h/0,https://b.test"
    found = settings(monkeypatch, tmp_path, given).bus
    assert {name: sink.url for name, sink in found.items()} == {
        "webhook": "https://a.test/x", "nats": "nats://h:4222?stream=S", "redis": "redis://h/0",
        "webhook-2": "https://b.test",
    }  # fmt: skip
    assert found["webhook"].secret == found["webhook-2"].secret == "env:OUTRIDER_BUS_SECRET"
    assert found["nats"].secret is None


def test_the_file_names_them_in_tables_and_the_variable_replaces_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "outrider.toml").write_text(
        '[bus.audit]\nurl = "https://a.test"\nsecret = "env:S"\nmax_attempts = 3\n'
    )
    monkeypatch.chdir(tmp_path)
    assert Settings().bus["audit"].max_attempts == 3
    assert list(settings(monkeypatch, tmp_path, "redis://h/0").bus) == ["redis"]


def test_a_child_process_is_given_the_same_sinks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"audit": {"url": "https://a.test", "secret": "file:/s"}, "q": {"url": "nats://h"}}
    here = settings(monkeypatch, tmp_path, json.dumps(given))
    there = settings(monkeypatch, tmp_path, here.as_environment()["OUTRIDER_BUS"])
    assert there.bus == here.bus
    assert list(there.bus) == ["audit", "q"]


@pytest.mark.parametrize(
    ("bus", "why"),
    [
        ("ftp://h", "use one of http://, https://, nats://, tls://, redis://, rediss://, unix://"),
        ("nats://user:hunter2@h", "must not contain a password"),
        ("redis://:hunter2@h/0", "must not contain a password"),
        ("redis://h/0?password=hunter2", "sink: password"),
        ('{"a": {"url": "https://h"}}', "a webhook requires a `secret`"),
        ('{"a": {"url": "https://h", "secret": "hunter2"}}', "never the secret itself"),
        ('{"a": {"url": "https://user@h", "secret": "env:S"}}', "must not contain a user"),
        ('{"a": {"url": "redis://h", "passwrd": "env:S"}}', "Extra inputs are not permitted"),
        ('{"Not a name": {"url": "redis://h"}}', "should match pattern"),
        ('{"a": ', "neither a JSON object"),
        ("redis://", "has no host"),
    ],
)
def test_an_invalid_sink_is_refused_without_repeating_a_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: str, why: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(monkeypatch, tmp_path, bus)
    (problem,) = refused.value.errors()
    assert why in problem["msg"]
    assert "hunter2" not in problem["msg"]

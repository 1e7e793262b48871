"""What is in deploy/ fits the program: settings, commands and files that it names exist."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.unit.test_documentation import problems_with

from outrider.settings import Settings, kept_in_files

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "container/Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
VARIABLES = {f"OUTRIDER_{name.upper()}" for name in Settings.model_fields} | {
    f"OUTRIDER_{name.upper()}_FILE" for name in kept_in_files(Settings)
}
# The compose file's own: not a setting of Outrider.
OF_COMPOSE = {"OUTRIDER_DOMAIN"}


@pytest.mark.parametrize(
    "file",
    [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and path.suffix != ".json"],
    ids=lambda path: str(path.relative_to(DEPLOY)),
)
def test_every_variable_that_a_file_sets_is_a_setting(file: Path) -> None:
    named = set(re.findall(r"OUTRIDER_[A-Z_]+", file.read_text()))
    assert named - VARIABLES - OF_COMPOSE == set()


def instructions() -> Iterator[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.MULTILINE))
    for line in filter(None, joined.splitlines()):
        name, _, rest = line.strip().partition(" ")
        yield name, rest.strip()


def test_the_image_is_built_in_two_stages_and_does_not_run_as_root() -> None:
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2
    last = dict(list(instructions())[len(names) - 1 - names[::-1].index("FROM") :])
    assert int(last["USER"]) > 0
    assert "/readyz" in last["HEALTHCHECK"]
    # What compiles and downloads stays behind.
    assert "pip" not in last["RUN"]


def test_what_the_image_copies_is_there_and_is_not_ignored() -> None:
    allowed = [
        line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line[:1] == "!"
    ]
    sources = [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert len(sources) == 5
    for source in sources:
        assert (ROOT / source).exists()
        assert source in allowed
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_health_check_of_the_image_is_a_program_that_fails_without_a_server() -> None:
    [check] = [yaml.safe_load(rest.partition("CMD ")[2]) for name, rest in instructions()
               if name == "HEALTHCHECK"]  # fmt: skip
    assert check[:2] == ["python", "-c"]
    compile(check[2], "HEALTHCHECK", "exec")
    free = check[2].replace(":8400", ":1")
    assert subprocess.run([sys.executable, "-c", free], capture_output=True).returncode != 0


def commands() -> Iterator[list[str]]:
    yield yaml.safe_load(next(rest for name, rest in instructions() if name == "CMD"))
    for service in COMPOSE["services"].values():
        if service["image"] == "outrider":
            yield service["command"]
    for unit in UNITS:
        yield from (found.split() for found in re.findall(r"bin/outrider (.*)", unit.read_text()))


def test_every_command_that_is_started_exists() -> None:
    started = list(commands())
    assert [words[0] for words in started] == ["serve", "migrate", "serve", "work", "serve", "work"]
    assert [problems_with(words) for words in started] == [[]] * 6


def test_every_service_of_outrider_is_confined_and_all_secrets_are_files() -> None:
    for service in COMPOSE["services"].values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        if service["image"] == "outrider":
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]
            named = [value for name, value in service["environment"].items() if "FILE" in name]
            assert sorted(named) == sorted(f"/run/secrets/{each}" for each in service["secrets"])
    assert "PASSWORD:" not in (DEPLOY / "compose/compose.yaml").read_text()


def test_only_the_proxy_is_reachable_and_the_server_trusts_its_network() -> None:
    services = COMPOSE["services"]
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]
    [edge] = COMPOSE["networks"]["edge"]["ipam"]["config"]
    assert services["server"]["environment"]["OUTRIDER_TRUSTED_PROXIES"] == edge["subnet"]
    assert services["proxy"]["networks"] == ["edge"]
    assert services["db"]["networks"] == ["inside"]


def test_files_that_compose_mounts_exist() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            # settings/ is written by `outrider init`.
            if source.startswith(".") and not source.startswith("./settings/"):
                assert (DEPLOY / "compose" / source).exists(), source


def test_the_secrets_are_made_once_and_are_good_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = shutil.copy(DEPLOY / "compose/make-secrets.sh", tmp_path)
    monkeypatch.chdir(tmp_path)
    made = []
    for _ in range(2):
        subprocess.run([script], check=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == set(COMPOSE["secrets"])
    assert len(set(made[0].values())) == len(made[0])
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("OUTRIDER_DATABASE_URL_FILE", "secrets/app_url")
    monkeypatch.setenv("OUTRIDER_ROOT_KEY_FILE", "secrets/root_key")
    settings = Settings()
    assert settings.root_key == made[0]["root_key"]
    assert made[0]["app_password"] in settings.database_url


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_units_and_finds_them_confined(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    outrider = Path(sys.executable).with_name("outrider")
    here.write_text(unit.read_text().replace("/opt/outrider/bin/outrider", str(outrider)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True
    )
    assert verified.returncode == 0, verified.stderr
    assert verified.stderr == ""
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", here],
        capture_output=True, text=True,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout[-300:] + judged.stderr

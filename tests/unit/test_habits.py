"""The project's own files agree with each other: CI, hooks, templates, releases."""

import configparser
import json
import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Hosts of images and packages: whoever builds Outrider chooses them.
HOSTS = re.compile(
    r"\b(?:docker\.io|ghcr\.io|quay\.io|gcr\.io|pypi\.org|registry\.(?!json\b)[a-z]+)\b"
)


def document(path: str) -> dict[str, Any]:
    # GitHub's `on:` is a boolean to YAML 1.1.
    found: dict[str, Any] = yaml.load((ROOT / path).read_text(), Loader=yaml.BaseLoader)
    return found


def ci_commands(job: str) -> list[str]:
    steps = document(".github/workflows/ci.yml")["jobs"][job]["steps"]
    return [step["run"] for step in steps if "run" in step]


def test_ci_runs_the_gate_and_the_demo() -> None:
    # What the tests need that no wheel has is installed first: without it they would be skipped.
    assert ci_commands("gate") == ["sudo scripts/machine.sh", ".ci/run"]
    assert ci_commands("demo")[-1].endswith("outrider demo")
    gate = ROOT / ".ci/run"
    assert os.access(gate, os.X_OK)
    goals = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)", gate.read_text())) <= set(goals)


def test_ci_tests_every_supported_version_of_python_and_postgres() -> None:
    job = document(".github/workflows/ci.yml")["jobs"]["gate"]
    matrix = job["strategy"]["matrix"]
    more = matrix["include"]
    pythons = {*matrix["python"], *(each["python"] for each in more)}
    databases = {*matrix["postgres"], *(each["postgres"] for each in more)}
    assert pythons == {"3.11", "3.12", "3.13", "3.14"}
    assert f">={min(pythons)}" == PYPROJECT["project"]["requires-python"]
    assert databases == {"14", "15", "16", "17", "18"}
    from outrider.testing.postgres import TEST_URL_VARIABLE

    assert job["env"].keys() == {TEST_URL_VARIABLE}


def test_hooks_run_what_make_check_runs_with_the_same_tools() -> None:
    hooks = document(".pre-commit-config.yaml")["repos"][0]["hooks"]
    checks = (ROOT / "Makefile").read_text()
    for hook in hooks[:3]:
        words = [each for each in hook["entry"].split() if not each.startswith("--")]
        assert " ".join(words).replace(".venv/bin", "$(BIN)") in checks
    tests = [word for word in hooks[3]["entry"].split() if word.startswith("tests/")]
    assert all((ROOT / each).exists() for each in tests)


def test_editors_and_linters_agree_on_the_length_of_a_line() -> None:
    config = configparser.ConfigParser()
    config.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    assert config.getint("*.py", "max_line_length") == PYPROJECT["tool"]["ruff"]["line-length"]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_form_for_issues_has_what_the_forge_asks_for(name: str) -> None:
    form = document(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"]
    assert form["description"]
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert all(each["id"] and each["attributes"]["label"] for each in fields)
    assert len({each["id"] for each in fields}) == len(fields)


def test_no_file_names_the_host_of_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone")
    named = [
        name
        for name in listed.stdout.splitlines()
        if name.startswith((".github/", "deploy/", "requirements/", ".pre-commit"))
        if HOSTS.search((ROOT / name).read_text())
    ]
    assert named == []
    assert HOSTS.search("FROM docker.io/library/python")


def test_the_sbom_lists_every_pin_and_the_wheel_itself(tmp_path: Path) -> None:
    wheel = tmp_path / "outrider-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    (tmp_path / "outrider_client-0.1.0-py3-none-any.whl").write_bytes(b"another")
    main = runpy.run_path(str(ROOT / "scripts/sbom.py"))["main"]
    main(tmp_path)
    file = tmp_path / "outrider-0.1.0.cdx.json"
    bom = json.loads(file.read_text())
    pins = re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements/demo.txt").read_text(), re.MULTILINE)
    assert [(each["name"], each["version"]) for each in bom["components"]] == pins
    assert all(each["purl"] == each["bom-ref"] for each in bom["components"])
    own = bom["metadata"]["component"]
    assert (own["name"], own["version"]) == ("outrider", PYPROJECT["project"]["version"])
    assert len(own["hashes"][0]["content"]) == 64
    first = file.read_text()
    main(tmp_path)
    assert file.read_text() == first

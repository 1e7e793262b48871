"""A workspace's policy as people meet it: over HTTP, and as `outrider workflow policy`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.bootstrap import open_outrider
from outrider.cli.app import app
from outrider.domain.keys import KeyScope
from outrider.limits.api import ApiLimits
from outrider.settings import Settings
from tests.support.api_inside import serving

POLICY = {
    "presets": ["us-tcpa"],
    "exempt": ["order_receipt"],
    "timeZone": "Europe/Amsterdam",
    "quietHours": {"from": "21:00", "to": "08:00", "channels": None},
    "sendingWindow": None,
    "frequencyCap": {"messages": 3, "perHours": 24, "whenReached": "skip", "channels": ["sms"]},
    "retry": {
        "attempts": 3,
        "firstSeconds": 30,
        "factor": 3,
        "capSeconds": 3600,
        "summary": "3 calls, with waits of 30 s, 1.5 min; gives up after 2 minutes",
    },
}
USUAL = {
    "attempts": 6,
    "firstSeconds": 60,
    "factor": 2,
    "capSeconds": 3600,
    "summary": "6 calls, with waits of 1 min, 2 min, 4 min, 8 min, 16 min; gives up after 31"
    " minutes",
}
NOTHING: dict[str, Any] = {
    "presets": [],
    "exempt": [],
    "timeZone": "UTC",
    "quietHours": None,
    "sendingWindow": None,
    "frequencyCap": None,
    "retry": USUAL,
}


async def test_a_policy_is_put_whole_shown_again_and_belongs_to_its_workspace(
    tmp_path: Path,
) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/outrider.db")
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        async with serving(outrider, ApiLimits()) as server:
            other = await outrider.key_keeper.open_workspace("another", "project", "production")
            _, stranger = await outrider.key_keeper.create(other, "b", {KeyScope.ADMIN}, "test")

            async def ask(
                method: str, body: object = None, key: str = server.key
            ) -> tuple[int, Any]:
                headers = {"Authorization": f"Bearer {key}"}
                url = f"{server.url}/workflows/policy"
                async with server.session.request(
                    method, url, json=body, headers=headers
                ) as answer:
                    return answer.status, await answer.json()

            assert await ask("GET") == (200, NOTHING)
            assert await ask("PUT", POLICY) == (200, {**POLICY, "success": True})
            assert await ask("GET") == (200, POLICY)
            assert await ask("GET", key=stranger) == (200, NOTHING)
            status, problem = await ask(
                "PUT", {"timeZone": "Mars/Base", "quietHours": {"from": "21:00"}}
            )
            assert status == 400
            assert {each["path"] for each in problem["error"]["fields"]} == {
                "timeZone", "quietHours.to",
            }  # fmt: skip
            assert await ask("GET") == (200, POLICY), "nothing of it was put in force"


def test_a_policy_is_set_from_a_file_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", f"sqlite:///{tmp_path}/outrider.db")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    assert run("migrate").exit_code == 0
    shown = run("workflow", "policy", "show").stdout
    assert "nothing delays messages" in shown
    assert "gives up after 31 minutes" in " ".join(shown.split()), "C8: in words"
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    assert run("workflow", "policy", "set", str(file)).exit_code == 0
    assert json.loads(run("workflow", "policy", "show", "--json").stdout) == POLICY
    shown = run("workflow", "policy", "show").stdout
    assert "21:00 to 08:00" in shown
    assert "3 in 24 h, then skip" in shown
    assert "3 calls, with waits of 30 s, 1.5 min; gives up after 2 minutes" in shown
    file.write_text('{"retry": {"attempts": 0, "firstSeconds": 90, "capSeconds": 60}}')
    refused = run("workflow", "policy", "set", str(file))
    assert "retry.attempts" in refused.stderr
    assert "retry.capSeconds" in refused.stderr
    file.write_text('{"quietHours": {"from": "25:00", "to": "08:00"}}')
    refused = run("workflow", "policy", "set", str(file))
    assert refused.exit_code == 1
    assert "quietHours.from" in refused.stderr
    assert "cannot be read" in run("workflow", "policy", "set", "nowhere.json").stderr

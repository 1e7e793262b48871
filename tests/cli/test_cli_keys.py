"""`outrider key` as an operator meets it, on both stores."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.bootstrap import open_outrider
from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import Principal
from outrider.limits.kernel import Limits
from outrider.settings import Settings

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """`outrider …` on a migrated database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    assert run("migrate").exit_code == 0
    return run


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def who(database: str, text: str) -> Principal | None:
    async def ask() -> Principal | None:
        async with open_outrider(Settings(database_url=database)) as outrider:
            return await outrider.key_keeper.authenticate(text)

    return asyncio.run(ask())


def refusal(result: Result) -> Any:
    assert result.exit_code == 1, result.output
    return json.loads(result.stdout)["error"]


def test_a_key_is_shown_when_it_is_made_and_never_again(invoke: Invoke) -> None:
    made = answer(invoke("key", "create", "ci", "--json"))
    assert made["scopes"] == ["read", "operate"]
    assert made["success"] is True
    listed = invoke("key", "list", "--json")
    assert made["key"] not in listed.output
    assert answer(listed) == {
        "items": [{key: made[key] for key in ("id", "name", "scopes", "createdAt", "revokedAt")}],
        "next": None,
    }
    text = invoke("key", "list").output
    assert made["id"] in text
    assert made["key"] not in text


def test_the_key_is_alone_on_a_line_to_be_copied(invoke: Invoke) -> None:
    lines = invoke("key", "create", "[bold]ci[/bold]", "--scope", "admin").stdout.splitlines()
    assert lines[0].endswith("[bold]ci[/bold]: admin")
    assert lines[1].startswith("outrider_")
    assert lines[2] == "store it now: it is not shown again"


def test_scopes_are_given_one_by_one_and_shown_in_order(invoke: Invoke) -> None:
    made = answer(invoke("key", "create", "ci", "--scope", "admin", "--scope", "read", "--json"))
    assert made["scopes"] == ["read", "admin"]
    assert invoke("key", "create", "ci", "--scope", "everything").exit_code == 2


def test_a_key_works_until_it_is_revoked(invoke: Invoke, database: str) -> None:
    made = answer(invoke("key", "create", "ci", "--json"))
    principal = who(database, made["key"])
    assert principal is not None
    assert (principal.scope, principal.actor) == (DEFAULT_SCOPE, "key:ci")
    revoked = answer(invoke("key", "revoke", made["id"], "--json"))
    assert revoked["revokedAt"] is not None
    assert revoked["success"] is True
    assert who(database, made["key"]) is None
    again = invoke("key", "revoke", made["id"])
    assert again.stdout == f"revoked {made['id']} ci\n"
    assert answer(invoke("key", "list", "--json"))["items"][0]["revokedAt"] == revoked["revokedAt"]


def test_a_workspace_is_created_with_its_first_key_and_has_its_own_keys(
    invoke: Invoke, database: str
) -> None:
    place = ("--workspace", "acme/shop/production")
    for command in (("list",), ("revoke", "x")):
        assert refusal(invoke("key", *command, *place, "--json"))["code"] == "NOT_FOUND"
    theirs = answer(invoke("key", "create", "shop", *place, "--json"))
    ours = answer(invoke("key", "create", "ci", "--json"))
    principal = who(database, theirs["key"])
    assert principal is not None
    assert principal.scope != DEFAULT_SCOPE
    assert [item["id"] for item in answer(invoke("key", "list", *place, "--json"))["items"]] == [
        theirs["id"]
    ]
    assert refusal(invoke("key", "revoke", theirs["id"], "--json"))["code"] == "NOT_FOUND"
    assert refusal(invoke("key", "revoke", ours["id"], *place, "--json"))["code"] == "NOT_FOUND"
    assert answer(invoke("key", "revoke", theirs["id"], *place, "--json"))["success"] is True


@pytest.mark.parametrize("workspace", ["acme", "acme/shop", "a/b/c/d", "acme//production"])
def test_a_workspace_that_is_no_path_of_three_is_refused(invoke: Invoke, workspace: str) -> None:
    refused = refusal(invoke("key", "create", "ci", "--workspace", workspace, "--json"))
    assert refused["code"] == "INVALID_REQUEST"
    assert refused["hint"] == "use the form TENANT/PROJECT/ENVIRONMENT"


def test_a_list_continues_where_the_last_page_ended(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "limits", lambda _settings: Limits(page_items=2))
    made = sorted(
        answer(invoke("key", "create", f"key-{number}", "--json"))["id"] for number in range(3)
    )
    first = answer(invoke("key", "list", "--json"))
    assert [item["id"] for item in first["items"]] == made[:2]
    assert f"next: outrider key list --after {first['next']}" in invoke("key", "list").stdout
    rest = answer(invoke("key", "list", "--after", first["next"], "--json"))
    assert ([item["id"] for item in rest["items"]], rest["next"]) == (made[2:], None)


def test_no_keys_and_no_such_key_say_what_to_do(invoke: Invoke) -> None:
    assert "outrider key create NAME" in invoke("key", "list").stdout
    missing = invoke("key", "revoke", "nonsense")
    assert missing.exit_code == 1
    assert "outrider key list" in missing.stderr


def test_a_short_root_key_is_reported_by_its_variable_and_not_repeated(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_ROOT_KEY", "hunter2")
    refused = invoke("key", "list")
    assert refused.exit_code == 1
    assert "OUTRIDER_ROOT_KEY" in refused.stderr
    assert "hunter2" not in refused.output

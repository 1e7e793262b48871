"""`outrider verify` as a user meets it."""

import asyncio
from pathlib import Path

import msgspec

from tests.cli.test_cli import Invoke, answer, invoke, written  # noqa: F401
from tests.support.tampering import tampering


async def edited(database: str) -> None:
    async with tampering(database) as raw:
        await raw.run("UPDATE run_events SET payload = '{}' WHERE run_seq = 2")


def test_verify_says_that_nothing_was_changed_and_names_what_was(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
    database: str,
) -> None:
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))
    assert invoke("campaign", "start", campaign["campaignId"], "--work", "--json").exit_code == 0
    shown = invoke("verify", "--database")
    assert shown.exit_code == 0, shown.output
    assert "Nothing was edited, removed or inserted." in shown.output
    asyncio.run(edited(database))
    shown = invoke("verify", "--database")
    assert shown.exit_code == 1
    assert "edited" in shown.output
    found = msgspec.json.decode(invoke("verify", "--database", "--json").output)
    assert [(each["how"], each["which"]) for each in found["findings"]] == [("edited", "2")]


def test_verify_without_anything_to_verify_says_what_to_give(
    invoke: Invoke,  # noqa: F811
) -> None:
    refused = invoke("verify")
    assert refused.exit_code != 0
    assert "--database" in refused.output

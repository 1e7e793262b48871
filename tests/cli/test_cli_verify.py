"""`outrider verify` as a user meets it."""

import asyncio
from pathlib import Path

import msgspec
import pytest

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


def launched(invoke: Invoke, tmp_path: Path) -> str:  # noqa: F811
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    assert invoke("campaign", "start", campaign, "--work", "--json").exit_code == 0
    status = answer(invoke("campaign", "status", campaign, "--json"))
    return str(status["phases"]["launch"]["runId"])


def test_a_bundle_is_written_and_verified_without_a_database(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = launched(invoke, tmp_path)
    file = tmp_path / "evidence.ndjson"
    assert answer(invoke("run", "evidence", run_id, "--out", str(file), "--json"))["sizeBytes"]
    key = answer(invoke("key", "signing", "export", "--json"))
    listed = answer(invoke("key", "signing", "list", "--json"))["items"]
    assert [each["publicKey"] for each in listed] == [key["publicKey"]]
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", "sqlite:////nowhere/at/all.db")
    shown = invoke("verify", str(file), "--public-key", key["publicKey"])
    assert shown.exit_code == 0, shown.output
    assert "Everything holds." in shown.output
    assert answer(invoke("verify", str(file), "--json"))["runId"] == run_id
    other = invoke("verify", str(file), "--public-key", "00" * 32)
    assert other.exit_code == 1
    assert "another key" in other.output
    file.write_bytes(file.read_bytes().replace(b"noop", b"nope", 1))
    changed = invoke("verify", str(file))
    assert changed.exit_code == 1
    assert "does not hold" in changed.output


def test_one_recipients_proof_is_written_and_verified(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
) -> None:
    run_id = launched(invoke, tmp_path)
    file = tmp_path / "proof.json"
    done = invoke("run", "evidence", run_id, "--recipient", "lead-1", "--out", str(file))
    assert done.exit_code == 0, done.output
    assert "Everything holds." in invoke("verify", str(file)).output


def test_a_new_signing_key_takes_the_place_of_the_former(
    invoke: Invoke,  # noqa: F811
) -> None:
    first = answer(invoke("key", "signing", "create", "--json"))["id"]
    second = answer(invoke("key", "signing", "create", "--json"))["id"]
    listed = answer(invoke("key", "signing", "list", "--json"))["items"]
    assert {first, second} == {key["id"] for key in listed}
    assert answer(invoke("key", "signing", "export", "--json"))["id"] == second
    assert answer(invoke("key", "signing", "export", first, "--json"))["id"] == first

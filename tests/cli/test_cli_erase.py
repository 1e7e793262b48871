"""`outrider erase` as a user meets it."""

from pathlib import Path

import msgspec

from tests.cli.test_cli import Invoke, answer, invoke, written  # noqa: F401


def test_a_person_is_listed_then_erased_and_everything_still_verifies(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
) -> None:
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    assert invoke("campaign", "start", campaign, "--work", "--json").exit_code == 0
    run_id = answer(invoke("campaign", "status", campaign, "--json"))["phases"]["launch"]["runId"]
    assert invoke("run", "evidence", run_id, "--out", str(tmp_path / "before")).exit_code == 0
    address = "+44 7700 900 123"
    listed = answer(invoke("erase", address, "--dry-run", "--json"))
    assert listed["dryRun"]
    assert "Nothing was changed" in invoke("erase", address, "--dry-run").output
    done = answer(invoke("erase", address, "--json"))
    assert done["complete"]
    assert done["tables"] == listed["tables"]
    assert {each["table"]: each["rows"] for each in done["tables"]} == {
        "audience_members": 1, "channel_outbox": 1,
    }  # fmt: skip
    again = invoke("erase", address)
    assert again.exit_code == 0
    assert "nothing is known of this person" in again.output
    bundle = tmp_path / "bundle.jsonl"
    assert invoke("run", "evidence", run_id, "--out", str(bundle)).exit_code == 0
    assert invoke("verify", str(bundle)).exit_code == 0
    assert invoke("verify", str(tmp_path / "before")).exit_code == 0
    assert invoke("run", "certificate", run_id).exit_code == 0
    verified = invoke("verify", "--database", "--json")
    assert verified.exit_code == 0, verified.output
    assert msgspec.json.decode(verified.output)["erased"] >= 1
